#include "ptc/cost/step/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ptc/base/status.h"
#include "ptc/cost/step/schedule.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::step {
namespace memory_test {

using collection::ParallelConfig;

// A GPT whose sizes can be multiplied in the head: a layer has 12·8² + 13·8 = 872 elements, of which 6·8 = 48 are not
// cut.
ModelShape small_gpt() {
  return transformer_shape({.name = "small",
                            .layers = 4,
                            .hidden = 8,
                            .heads = 4,
                            .biases = true,
                            .dropout = true,
                            .positions = true,
                            .vocab = 300,
                            .sequence = 16,
                            .tied = true});
}

// Grouped-query attention, SwiGLU, a head of its own: q 8·8, k and v 2·2·2·8, output 8·8, feed-forward 3·8·20, norms
// 2·8.
ModelShape small_llama() {
  return transformer_shape({.name = "small-llama",
                            .layers = 4,
                            .hidden = 8,
                            .heads = 4,
                            .kv_heads = 2,
                            .ffn = 20,
                            .gated = true,
                            .vocab = 300,
                            .sequence = 16});
}

Training small_training() {
  return {.global_batch = 8, .micro_batch = 2, .sequence = 16, .precision = find_precision("bf16").value()};
}

double term(const Workload& workload, int stage, std::string_view name) {
  return memory_of(workload).stages.at(static_cast<size_t>(stage)).bytes(name);
}

TEST(LayerActivations, AreKorthikantisEquations) {
  for (const int t : {1, 2, 4}) {
    SCOPED_TRACE(t);
    const ModelShape model = small_gpt();
    const ParallelConfig config = {.tp = t};
    const double s = 16, b = 2, h = 8, a = 4, sbh = s * b * h, core = 5 * a * s / (h * t);
    const auto bytes = [&](bool sequence_parallel, bool flash, Recompute recompute) {
      Training training = small_training();
      training.sequence_parallel = sequence_parallel;
      training.flash_attention = flash;
      training.recompute = recompute;
      return layer_activation_bytes({model, config, training});
    };
    EXPECT_DOUBLE_EQ(bytes(false, false, Recompute::kNone), sbh * (10 + 24.0 / t + core));
    EXPECT_DOUBLE_EQ(bytes(true, false, Recompute::kNone), sbh * (34.0 / t + core));
    EXPECT_DOUBLE_EQ(bytes(false, false, Recompute::kSelective), sbh * (10 + 24.0 / t));
    EXPECT_DOUBLE_EQ(bytes(true, false, Recompute::kSelective), sbh * 34 / t);
    EXPECT_DOUBLE_EQ(bytes(true, true, Recompute::kNone), sbh * 34 / t);
    EXPECT_DOUBLE_EQ(bytes(false, false, Recompute::kFull), 2 * sbh);
    EXPECT_DOUBLE_EQ(bytes(true, true, Recompute::kFull), 2 * sbh / t);
  }
}

// A token of small_llama at tp1: norms and inputs 4·2·8, queries and output 2·2·8, keys and values 2·2·4, SwiGLU
// 3·2·20.
constexpr double kLlamaToken = 64 + 32 + 16 + 120;

TEST(LayerActivations, GroupedQueriesAndGatedFeedForward) {
  const ModelShape model = small_llama();
  Training training = small_training();
  ParallelConfig config;
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, config, training}), 32 * kLlamaToken);
  config.tp = 4;  // two ranks hold the same key-value head: 2·2·2 instead of 2·2·1
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, config, training}), 32 * (kLlamaToken / 4 + 8 - 4));
  config = {.cp = 4};
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, config, training}), 8 * kLlamaToken);
  // Without dropout the core keeps softmax's output alone: 2 B · 4 heads · 16 keys, whatever cp.
  training.flash_attention = false;
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, config, training}), 8 * (kLlamaToken + 2 * 4 * 16));
  training.precision = find_precision("fp32").value();
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, config, training}), 8 * 2 * (kLlamaToken + 2 * 4 * 16));
}

TEST(LayerActivations, ExpertsKeepChosenTokensOnly) {
  ModelShape model = small_llama();
  model.experts = 8;
  model.experts_per_token = 2;
  model = transformer_shape(model);
  const Training training = small_training();
  // Instead of 120 once: twice 120, input and output 2·2·8 of the experts.
  const double token = 64 + 32 + 16 + 2 * (120 + 32);
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, {}, training}), 32 * token);
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, {.tp = 2}, training}), 32 * token / 2);
  // Experts cut by etp: all of its ranks work on the tokens of all; what comes back goes where the token came from.
  const ParallelConfig cut = {.tp = 2, .etp = 2};
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, cut, training}), 32 * (token + 2 * 16) / 2);
  // ep moves tokens, on average it changes nothing.
  const ParallelConfig moved = {.tp = 2, .dp = 2, .ep = 4};
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, moved, training}), 32 * token / 2);
}

TEST(State, BytesAParameterByRecipe) {
  const ModelShape model = small_gpt();
  Training training = small_training();
  const ParallelConfig config;
  // 512 rows stay of 300 at tp 1: 384 = 3 · 128. Positions 16·8, final norm 2·8.
  const double elements = 4 * 872 + 384 * 8 + 16 * 8 + 16;
  const auto together = [&](std::string_view recipe, model::Optimizer optimizer) {
    training.precision = find_precision(recipe, optimizer).value();
    const MemoryEstimate estimate = memory_of({model, config, training});
    const StageMemory& stage = estimate.worst();
    return (stage.bytes(memory_term::kParameters) + stage.bytes(memory_term::kGradients) +
            stage.bytes(memory_term::kOptimizer)) /
           elements;
  };
  EXPECT_DOUBLE_EQ(together("bf16", model::Optimizer::kAdam), 18);
  EXPECT_DOUBLE_EQ(together("fp16", model::Optimizer::kAdam), 20);
  EXPECT_DOUBLE_EQ(together("zero-fp16", model::Optimizer::kAdam), 16);
  EXPECT_DOUBLE_EQ(together("fp32", model::Optimizer::kAdam), 16);
  EXPECT_DOUBLE_EQ(together("fp8", model::Optimizer::kAdam), 18);
  EXPECT_DOUBLE_EQ(together("bf16", model::Optimizer::kSgdMomentum), 14);
}

TEST(State, ZeroSharesWhatItsStageNames) {
  const ModelShape model = small_gpt();
  const Training training = small_training();
  const double elements = 4 * 872 + 384 * 8 + 16 * 8 + 16;
  for (int zero = 0; zero <= 3; ++zero) {
    SCOPED_TRACE(zero);
    // Context parallel ranks have the same parameters, so they share too: 2 · 2 ranks.
    const ParallelConfig config = {.dp = 2, .cp = 2, .zero = zero};
    const Workload workload = {model, config, training};
    EXPECT_DOUBLE_EQ(term(workload, 0, memory_term::kParameters), 2 * elements / (zero >= 3 ? 4 : 1));
    EXPECT_DOUBLE_EQ(term(workload, 0, memory_term::kGradients), 4 * elements / (zero >= 2 ? 4 : 1));
    EXPECT_DOUBLE_EQ(term(workload, 0, memory_term::kOptimizer), 12 * elements / (zero >= 1 ? 4 : 1));
    // The embedding with its positions is larger than a layer.
    EXPECT_DOUBLE_EQ(term(workload, 0, memory_term::kGathered), zero == 3 ? 2 * (872 + 384 * 8 + 16 * 8) : 0);
  }
}

TEST(State, GatheredAreNeighbours) {
  ModelShape model = small_llama();
  const Training training = small_training();
  const double layer = 192 + 480 + 16, rows = 384 * 8;
  const auto gathered = [&](const ParallelConfig& config, int stage) {
    return term({model, config, training}, stage, memory_term::kGathered);
  };
  const ParallelConfig config = {.pp = 4, .dp = 2, .zero = 3};  // a layer each
  EXPECT_DOUBLE_EQ(gathered(config, 0), 2 * (layer + rows));
  EXPECT_DOUBLE_EQ(gathered(config, 1), 2 * layer);
  EXPECT_DOUBLE_EQ(gathered(config, 3), 2 * (layer + rows + 8));  // the final norm's weights too
  model.vocab = 16;                                               // padded to 128 rows: more than a layer still
  model = transformer_shape(model);
  EXPECT_DOUBLE_EQ(gathered({.dp = 2, .zero = 3}, 0), 2 * (layer + 128 * 8 + 8));
  model.ffn *= 8;
  model = transformer_shape(model);
  EXPECT_DOUBLE_EQ(gathered({.dp = 2, .zero = 3}, 0), 2 * 2 * (192 + 8 * 480 + 16));
}

TEST(State, PipelinesKeepWholeGradientsWithZeroTwo) {
  const ModelShape model = small_gpt();
  const Training training = small_training();
  for (const int stage : {0, 1}) {
    const ParallelConfig one = {.pp = 2, .dp = 2, .zero = 1}, two = {.pp = 2, .dp = 2, .zero = 2},
                         three = {.pp = 2, .dp = 2, .zero = 3};
    const double whole = term({model, one, training}, stage, memory_term::kGradients);
    EXPECT_DOUBLE_EQ(term({model, two, training}, stage, memory_term::kGradients), whole);
    EXPECT_DOUBLE_EQ(term({model, three, training}, stage, memory_term::kGradients), whole / 2);
    EXPECT_DOUBLE_EQ(memory_bytes({model, one, training}), memory_bytes({model, two, training}));
  }
}

TEST(State, ExpertsAreSharedByTheirOwnRanks) {
  ModelShape model = small_llama();
  model.experts = 4;
  model.experts_per_token = 1;
  model = transformer_shape(model);
  const Training training = small_training();
  // edp = 4 · 2 / 4: each rank holds two experts of 480, cut by etp 2.
  const ParallelConfig config = {.tp = 2, .dp = 4, .ep = 2, .etp = 2, .zero = 1};
  const StageElements elements = stage_elements({model, config, training}, 0);
  EXPECT_DOUBLE_EQ(elements.experts, 4 * 2 * 480 / 2);
  // Attention 192 in halves, norms 16, router 4·8 whole; embedding and head: 512 rows in halves; final norm.
  EXPECT_DOUBLE_EQ(elements.dense, 4 * (192.0 / 2 + 16 + 32) + 2 * 256 * 8 + 8);
  EXPECT_DOUBLE_EQ(term({model, config, training}, 0, memory_term::kOptimizer),
                   12 * (elements.dense / 4 + elements.experts / 2));
}

TEST(State, KeyValueHeadsAreNotCut) {
  const ModelShape model = small_llama();
  const Training training = small_training();
  const ParallelConfig config = {.tp = 4, .pp = 4};
  // Query and output in quarters, one key and one value head of 2·8, feed-forward in quarters, norms.
  EXPECT_DOUBLE_EQ(stage_elements({model, config, training}, 1).dense, 2 * 16 + 2 * 16 + 480.0 / 4 + 16);
  // With biases a head has one more column: of 4 query and 2 key-value heads 2·9 rows each, a quarter and one of each.
  ModelShape biased = small_gpt();
  biased.kv_heads = 2;
  biased = transformer_shape(biased);
  const double mlp = (32 * 9 + 8 * 32) / 4.0;
  EXPECT_DOUBLE_EQ(stage_elements({biased, config, training}, 1).dense, 2 * 9 + 2 * 2 * 9 + 8 * 2 + mlp + 48);
}

TEST(State, BothEnds) {
  const ModelShape tied = small_gpt(), own = small_llama();
  const Training training = small_training();
  const ParallelConfig config = {.tp = 2, .pp = 2};
  const double layers = 2 * ((872 - 48) / 2.0 + 48), rows = 256 * 8;  // 512 padded rows in halves
  EXPECT_DOUBLE_EQ(stage_elements({tied, config, training}, 0).dense, layers + rows + 16 * 8);
  EXPECT_DOUBLE_EQ(stage_elements({tied, config, training}, 1).dense, layers + rows + 16);
  EXPECT_DOUBLE_EQ(stage_elements({tied, config, training}, 1).layers, layers);
  EXPECT_DOUBLE_EQ(stage_elements({tied, {}, training}, 0).dense, 4 * 872 + 384 * 8 + 16 * 8 + 16);  // once
  EXPECT_DOUBLE_EQ(stage_elements({own, {}, training}, 0).dense, 4 * (192 + 480 + 16) + 2 * 384 * 8 + 8);
}

TEST(State, SecondVersionOfTheWeights) {
  const ModelShape model = small_gpt();
  Training training = small_training();
  const ParallelConfig config = {.pp = 2};
  EXPECT_EQ(term({model, config, training}, 0, memory_term::kPrevious), 0);
  training.schedule = Schedule::kTwoBW;
  const Workload workload = {model, config, training};
  EXPECT_GT(term(workload, 1, memory_term::kPrevious), 0);
  for (const int stage : {0, 1}) {
    EXPECT_EQ(term(workload, stage, memory_term::kPrevious), term(workload, stage, memory_term::kParameters));
  }
}

// The tensors that a collection puts on each rank are an independent count.
TEST(State, CountsWhatTheCollectionHolds) {
  const auto check = [](const std::string& name, const ParallelConfig& config) {
    SCOPED_TRACE(name + " " + collection::canonical(config));
    const model::Model model = model::find_model(name).value();
    std::vector<DeviceId> devices;
    for (int i = 0; i < config.world(); ++i) devices.emplace_back(i);
    const auto held = collection::megatron_collection(model, {.master = false}, config, devices);
    ASSERT_TRUE(held.ok()) << message_of(held.status());
    const ModelShape shape = step::shape_of(model);
    const Training training = {
        .global_batch = 960, .sequence = 512, .precision = find_precision("bf16").value(), .whole_batches = false};
    const collection::Mesh mesh = collection::dense_mesh(config);
    for (int rank = 0; rank < config.world(); ++rank) {
      int64_t elements = 0;
      for (size_t i = 0; i < held->tensors.size(); ++i) {
        if (held->tensors[i].kind != model::StateKind::kParam) continue;
        elements += held->pieces(TensorId(static_cast<int>(i)), LogicalRank(rank)).elements;
      }
      const StageElements own = stage_elements({shape, config, training}, mesh.coordinate(LogicalRank(rank), "pp"));
      EXPECT_EQ(static_cast<double>(elements), own.dense + own.experts) << "rank " << rank;
    }
  };
  check("gpt2", {.tp = 2, .pp = 3, .dp = 2});
  check("gpt2", {.tp = 4});
  check("gpt2-large", {.pp = 5, .stages = {8, 8, 8, 7, 5}});
  check("gpt3-125m", {.tp = 3, .pp = 2, .vpp = 3});
  check("gpt3-125m", {.pp = 2, .vpp = 2, .stages = {2, 3, 6, 1}});
  check("bert-base", {.tp = 2, .pp = 2});
  check("llama3-8b", {.tp = 8, .pp = 2});
  check("mixtral-8x7b", {.tp = 2, .dp = 4, .ep = 4});
  check("mixtral-8x7b", {.tp = 4, .pp = 2, .dp = 2, .ep = 4, .etp = 2});
  check("resnet-50", {.dp = 2});
}

TEST(InFlight, BySchedule) {
  const ModelShape model = small_gpt();
  const ParallelConfig config = {.pp = 4};
  Training training = small_training();
  training.global_batch = 20;  // 10 micro-batches
  const double layer = layer_activation_bytes({model, config, training});
  for (const Schedule schedule : {Schedule::kOneFOneB, Schedule::kTwoBW}) {
    training.schedule = schedule;
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_DOUBLE_EQ(term({model, config, training}, stage, memory_term::kActivations), (4 - stage) * layer);
    }
  }
  training.schedule = Schedule::kGPipe;
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_DOUBLE_EQ(term({model, config, training}, stage, memory_term::kActivations), 10 * layer);
  }
  training.schedule = Schedule::kOneFOneB;
  training.global_batch = 4;  // 2 micro-batches: no more can be in flight
  EXPECT_DOUBLE_EQ(term({model, config, training}, 0, memory_term::kActivations), 2 * layer);
}

TEST(InFlight, InterleavedHoldsMore) {
  const ModelShape model = small_gpt();
  Training training = small_training();
  training.global_batch = 16;
  const ParallelConfig config = {.pp = 2, .vpp = 2};
  const double layer = layer_activation_bytes({model, config, training});
  EXPECT_DOUBLE_EQ(term({model, config, training}, 0, memory_term::kActivations), 2 * 2 * (1 + 1.0 / 4) * layer);
  // Chunks of 1 and 2 layers on stage 0, in flight 3 and 2 of them (2 pp − 1, then pp) before the first goes back.
  const ParallelConfig uneven = {.pp = 2, .vpp = 2, .stages = {1, 1, 1, 1}};
  EXPECT_DOUBLE_EQ(term({model, uneven, training}, 0, memory_term::kActivations), (3 + 2) * layer);
  ModelShape taller = model;
  taller.layers = 5;
  const ParallelConfig more = {.pp = 2, .vpp = 2, .stages = {1, 1, 2, 1}};
  EXPECT_DOUBLE_EQ(term({taller, more, training}, 0, memory_term::kActivations), (3 * 1 + 2 * 2) * layer);
}

TEST(Ends, DropoutHeadAndLogits) {
  const ModelShape model = small_gpt();
  const ParallelConfig config = {.tp = 2, .pp = 2};
  Training training = small_training();
  const double sb = 32;
  for (const bool sequence_parallel : {false, true}) {
    training.sequence_parallel = sequence_parallel;
    const double divided = sequence_parallel ? 2 : 1;
    const Workload workload = {model, config, training};
    EXPECT_DOUBLE_EQ(term(workload, 0, memory_term::kEmbedding), 2 * sb * 8 / divided);
    EXPECT_DOUBLE_EQ(term(workload, 1, memory_term::kEmbedding), 0);
    EXPECT_DOUBLE_EQ(term(workload, 0, memory_term::kHead) + term(workload, 0, memory_term::kLogits), 0);
    EXPECT_DOUBLE_EQ(term(workload, 1, memory_term::kHead), sb * 4 * 8 / divided);
    EXPECT_DOUBLE_EQ(term(workload, 1, memory_term::kLogits), (4 + 2) * sb * 512 / 2);
  }
  training.schedule = Schedule::kGPipe;  // 4 micro-batches
  EXPECT_DOUBLE_EQ(term({model, config, training}, 0, memory_term::kEmbedding), 4 * sb * 8 / 2);
  EXPECT_DOUBLE_EQ(term({model, config, training}, 1, memory_term::kHead), 4 * sb * 4 * 8 / 2);
  EXPECT_DOUBLE_EQ(term({model, config, training}, 1, memory_term::kLogits), (4 * 4 + 2) * sb * 512 / 2);
  // Interleaved, the first chunk has 2 pp − 1 micro-batches under way.
  training.schedule = Schedule::kOneFOneB;
  EXPECT_DOUBLE_EQ(term({model, {.tp = 2, .pp = 2, .vpp = 2}, training}, 0, memory_term::kEmbedding), 3 * sb * 8 / 2);
  EXPECT_EQ(term({small_llama(), {}, training}, 0, memory_term::kEmbedding), 0);  // no dropout
}

TEST(Working, WhatIsComputedAgain) {
  const ModelShape model = small_gpt();
  Training training = small_training();
  training.flash_attention = false;
  const double sbh = 32 * 8, core = 5 * 4 * 16 / 8.0;
  EXPECT_EQ(term({model, {}, training}, 0, memory_term::kRecomputed), 0);
  training.recompute = Recompute::kSelective;
  EXPECT_DOUBLE_EQ(term({model, {}, training}, 0, memory_term::kRecomputed), sbh * core);
  training.recompute = Recompute::kFull;
  EXPECT_DOUBLE_EQ(term({model, {}, training}, 0, memory_term::kRecomputed), sbh * (34 + core - 2));
}

TEST(Working, ConvolutionsCountElements) {
  const ModelShape model = step::shape_of(model::find_model("resnet-50").value());
  Training training = {.global_batch = 64, .micro_batch = 32, .precision = find_precision("fp32").value()};
  const StageMemory stage = memory_of({model, {.dp = 2}, training}).worst();
  EXPECT_DOUBLE_EQ(stage.bytes(memory_term::kActivations), 32 * 22.2e6 * 4);
  EXPECT_DOUBLE_EQ(stage.bytes(memory_term::kParameters), 4.0 * static_cast<double>(model.parameters()));
  EXPECT_EQ(layer_activation_bytes({model, {}, training}), 0);
  // All of it is counted as on the first stage.
  const MemoryEstimate two = memory_of({model, {.pp = 2, .dp = 2}, training});
  EXPECT_GT(two.stages[0].bytes(), 0);
  EXPECT_EQ(two.stages[1].bytes(), 0);
}

TEST(Margin, SharesOfWhatComesAndGoesAndTheFramework) {
  const ModelShape model = small_gpt();
  const Training training = small_training();
  const MemoryEstimate alone = memory_of({model, {}, training});
  double comes_and_goes = 0;
  for (const std::string_view name : {memory_term::kActivations, memory_term::kEmbedding, memory_term::kHead,
                                      memory_term::kLogits, memory_term::kRecomputed}) {
    comes_and_goes += alone.worst().bytes(name);
  }
  EXPECT_DOUBLE_EQ(alone.margin_bytes, 0.08 * comes_and_goes + 640 * 1048576.0);
  EXPECT_DOUBLE_EQ(alone.bytes(), alone.worst().bytes() + alone.margin_bytes);
  // Communicators of tp, pp and dp, of the world, of a replica, of the tied embedding.
  const ParallelConfig config = {.tp = 2, .pp = 2, .dp = 2};
  const MemoryEstimate six = memory_of({model, config, training});
  EXPECT_NEAR(six.margin_bytes, 640 * 1048576.0 + 6 * 256 * 1048576.0, 0.1 * six.worst().bytes());
  EXPECT_NE(six.margin_formula.find("6 communicators"), std::string::npos) << six.margin_formula;
}

TEST(Margin, IsOfTheWorstStage) {
  // Stage 0 has most of the state, stage 1 the logits, which come and go.
  ModelShape model = small_gpt();
  model.layers = 8;
  const ParallelConfig config = {.pp = 2, .stages = {7, 1}};
  Training training = small_training();
  training.recompute = Recompute::kFull;
  const MemoryEstimate estimate = memory_of({model, config, training});
  const auto working = [&](size_t stage) {
    const StageMemory& memory = estimate.stages[stage];
    return memory.bytes() - memory.bytes(memory_term::kParameters) - memory.bytes(memory_term::kGradients) -
           memory.bytes(memory_term::kOptimizer);
  };
  EXPECT_EQ(estimate.worst().stage, 0);
  EXPECT_GT(working(1), 2 * working(0));
  // Communicators of pp, of the world, of the replica (the same ranks here), of the embedding.
  EXPECT_DOUBLE_EQ(estimate.margin_bytes, 0.08 * working(0) + (640 + 4 * 256) * 1048576.0);
}

TEST(Estimate, WorstIsTheFirstOfTheLargest) {
  MemoryEstimate estimate;
  for (const double bytes : {1.0, 3.0, 3.0, 2.0}) {
    estimate.stages.push_back({static_cast<int>(estimate.stages.size()), {{"x", bytes, ""}}});
  }
  EXPECT_EQ(estimate.worst().stage, 1);
}

TEST(Estimate, TermsSayHowTheyComeAbout) {
  const ModelShape model = small_gpt();
  const Training training = small_training();
  const MemoryEstimate estimate = memory_of({model, {.dp = 2, .zero = 1}, training});
  for (const MemoryTerm& one : estimate.worst().terms) {
    EXPECT_GT(one.bytes, 0) << one.name;
    EXPECT_FALSE(one.formula.empty()) << one.name;
    if (one.name == memory_term::kOptimizer) {
      EXPECT_EQ(one.formula, "12 B · 6704 / 2 (dp·cp)");
    }
  }
}

TEST(Estimate, ShortFormEqualsTheTerms) {
  const int seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto pick = [&](std::initializer_list<int> values) {
    return *(values.begin() + std::uniform_int_distribution<size_t>(0, values.size() - 1)(random));
  };
  int checked = 0;
  for (int i = 0; i < 400; ++i) {
    ModelShape model = pick({0, 1}) == 0 ? small_gpt() : small_llama();
    if (pick({0, 1}) == 0) {
      model.experts = 4;
      model.experts_per_token = 2;
      model = transformer_shape(model);
    }
    const ParallelConfig config = {.tp = pick({1, 2, 4}),
                                   .pp = pick({1, 2, 4}),
                                   .dp = pick({1, 2}),
                                   .cp = pick({1, 2}),
                                   .ep = pick({1, 2}),
                                   .vpp = pick({1, 2}),
                                   .zero = pick({0, 1, 2, 3})};
    Training training = small_training();
    training.global_batch = 32;
    training.schedule = static_cast<Schedule>(pick({0, 1, 2}));
    training.recompute = find_recompute(std::vector<const char*>{"none", "selective", "full", "full-first-1",
                                                                 "full-every-2", "op", "layernorm+moe_act", "mlp+moe"}
                                            .at(static_cast<size_t>(pick({0, 1, 2, 3, 4, 5, 6, 7}))))
                             .value();
    training.flash_attention = pick({0, 1}) == 1;
    const Workload workload = {model, config, training};
    if (!check_workload(workload).ok()) continue;
    ++checked;
    EXPECT_DOUBLE_EQ(memory_bytes(workload), memory_of(workload).bytes()) << collection::canonical(config);
  }
  EXPECT_GT(checked, 50);
}

}  // namespace memory_test
}  // namespace scalai::step
