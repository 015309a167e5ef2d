// What is kept and what is computed again, with sizes that can be multiplied in the head.
#include <gtest/gtest.h>

#include <string_view>

#include "ptc/base/status.h"
#include "ptc/cost/step/memory.h"
#include "ptc/cost/step/schedule.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::step {
namespace layer_memory_test {

using collection::ParallelConfig;

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

ModelShape small_mixture() {
  return transformer_shape({.name = "small-mixture",
                            .layers = 4,
                            .hidden = 8,
                            .heads = 4,
                            .kv_heads = 2,
                            .ffn = 20,
                            .gated = true,
                            .vocab = 300,
                            .sequence = 16,
                            .experts = 4,
                            .experts_per_token = 2});
}

Training small_training(std::string_view recompute) {
  return {.global_batch = 8,
          .micro_batch = 2,
          .sequence = 16,
          .precision = find_precision("bf16").value(),
          .recompute = find_recompute(recompute).value()};
}

double term(const Workload& workload, std::string_view name) { return memory_of(workload).stages.front().bytes(name); }

// Bytes a token of a layer with 8 hidden elements: norm inputs 4h, inputs of matrices 4h, masks 2h, attention 8h, the
// block around its non-linearity 4 · 4h.
TEST(Recomputation, PartsThatAreComputedAgainAreNotKept) {
  const ModelShape model = small_gpt();
  const double sbh = 32 * 8;
  const auto kept = [&](const char* name) { return layer_activation_bytes({model, {}, small_training(name)}); };
  const auto again = [&](const char* name) {
    return term({model, {}, small_training(name)}, memory_term::kRecomputed);
  };
  EXPECT_DOUBLE_EQ(kept("none"), sbh * 34);
  EXPECT_DOUBLE_EQ(kept("layernorm"), sbh * (34 - 4));
  EXPECT_DOUBLE_EQ(kept("mlp"), sbh * (34 - 16));
  EXPECT_DOUBLE_EQ(kept("layernorm+mlp"), sbh * (34 - 20));
  EXPECT_DOUBLE_EQ(again("layernorm+mlp"), sbh * 20);
  EXPECT_DOUBLE_EQ(kept("moe+moe_act"), sbh * 34);  // it has no experts
  EXPECT_DOUBLE_EQ(again("moe+moe_act"), 0);
  // Input, queries, values, result of attention, first matrix of the block.
  EXPECT_DOUBLE_EQ(kept("op"), sbh * 2 * (1 + 3 + 4));
  EXPECT_DOUBLE_EQ(again("op"), sbh * (34 - 16));
}

TEST(Recomputation, PartsOfExpertsAreNotKept) {
  const ModelShape model = small_mixture();
  const double tokens = 32, h = 8, ffn = 20;
  const auto kept = [&](const char* name, const ParallelConfig& config = {}) {
    return layer_activation_bytes({model, config, small_training(name)});
  };
  EXPECT_DOUBLE_EQ(kept("none") - kept("moe_act"), tokens * 2 * 2 * ffn);
  EXPECT_DOUBLE_EQ(kept("none") - kept("moe"), tokens * 2 * (2 * 2 * h + 2 * 3 * ffn));
  EXPECT_DOUBLE_EQ(kept("none") - kept("mlp"), 0);
  // Both ranks of etp gather the tokens; what comes back goes to the rank it came from.
  const ParallelConfig two = {.tp = 2, .etp = 2};
  EXPECT_DOUBLE_EQ(kept("none", two) - kept("moe", two), tokens / 2 * 2 * (2 * 2 * h + 2 * h + 2 * 3 * ffn));
  // Input, queries and the result of attention, values of two of four heads; both trips of two copies.
  EXPECT_DOUBLE_EQ(kept("op"), tokens * 2 * (h + 2 * h + h / 2 + 4 * h));
}

// Of a shared expert of 12: gate, up and the result, 2 bytes each.
TEST(Recomputation, ASharedExpertIsKeptOnce) {
  ModelShape shared = small_mixture();
  const double none = layer_activation_bytes({shared, {}, small_training("none")});
  shared.shared_ffn = 12;
  shared = transformer_shape(shared);
  EXPECT_DOUBLE_EQ(layer_activation_bytes({shared, {}, small_training("none")}) - none, 32 * 3 * 2 * 12);
}

TEST(Recomputation, OffloadedModulesAreNotOnTheGpu) {
  const ModelShape model = small_mixture();
  Training training = small_training("none");
  const double none = layer_activation_bytes({model, {}, training});
  const double kept = layer_activation_bytes({model, {}, small_training("moe+layernorm")});
  training.offloaded_modules = Recompute::kExperts | Recompute::kNorms;
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, {}, training}), kept);
  EXPECT_LT(kept, none);
  EXPECT_DOUBLE_EQ(term({model, {}, training}, memory_term::kRecomputed), 0);
}

TEST(Recomputation, LayersOfAChunk) {
  const ModelShape model = small_gpt();
  const auto activations = [&](const char* name, const ParallelConfig& config) {
    return term({model, config, small_training(name)}, memory_term::kActivations);
  };
  const ParallelConfig one = {};
  const double none = activations("none", one), full = activations("full", one);
  EXPECT_DOUBLE_EQ(activations("full-first-1", one), full / 4 + none * 3 / 4);
  EXPECT_DOUBLE_EQ(activations("full-every-2", one), (full + none) / 2);
  const ParallelConfig chunks = {.pp = 2, .vpp = 2};  // of a layer each
  EXPECT_DOUBLE_EQ(activations("full-first-1", chunks), activations("full", chunks));
  EXPECT_DOUBLE_EQ(activations("full-every-2", chunks), activations("none", chunks));
}

// A layer whose only block is Mamba-2 keeps of a token, in 2 bytes: the norm's input and output, 2 · 8; what the first
// matrix makes, 2 · 16 + 2 · 4 + 2; the scan's result and the last matrix' operand, 2 · 16.
TEST(LayerActivations, StateSpaceBlocksKeepTheirFirstMatrixAndTheScan) {
  ModelShape model = small_gpt();
  model.dropout = false;
  model.blocks = {.attention = 0, .state_space = 1};
  model.state_space = {.inner = 16, .groups = 4, .heads = 2, .state = 4};
  const double tokens = 32, block = 2 * (2 * 8 + (2 * 16 + 2 * 4 + 2) + 2 * 16);
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, {}, small_training("none")}), tokens * block);
  // Every other layer is one, the rest have both blocks of a GPT: halves of each.
  ModelShape half = small_gpt();
  half.dropout = false;
  const double gpt = layer_activation_bytes({half, {}, small_training("none")});
  half.blocks = {.attention = 0.5, .state_space = 0.5, .dense = 0.5};
  half.state_space = model.state_space;
  EXPECT_DOUBLE_EQ(layer_activation_bytes({half, {}, small_training("none")}), (gpt + tokens * block) / 2);
}

// Latent attention: 12 elements of latents, twice 2 bytes, make queries, keys and values of 4 heads of 2; without these
// 3 · 2 · 8 bytes a token less are kept.
TEST(Recomputation, LatentAttentionKeepsItsVectors) {
  ModelShape model = small_gpt();
  model.latent = true;
  model.latent_width = 12;
  const double tokens = 32;
  const auto kept = [&](const char* name) { return layer_activation_bytes({model, {}, small_training(name)}); };
  EXPECT_DOUBLE_EQ(kept("none") - layer_activation_bytes({small_gpt(), {}, small_training("none")}),
                   tokens * 2 * 2 * 12);
  EXPECT_DOUBLE_EQ(kept("none") - kept("mla_up_proj"), tokens * 3 * 2 * 8);
  EXPECT_DOUBLE_EQ(layer_activation_bytes({small_gpt(), {}, small_training("mla_up_proj")}),
                   layer_activation_bytes({small_gpt(), {}, small_training("none")}));
}

// Of four layers one is dense: "mlp" computes that one again, "moe" the three others.
TEST(Recomputation, ModulesAreOfTheLayersThatHaveThem) {
  ModelShape model = small_mixture();
  const double sparse = layer_activation_bytes({model, {}, small_training("none")});
  const double without = layer_activation_bytes({model, {}, small_training("moe")});
  model.blocks = {.dense = 0.25, .sparse = 0.75};
  model.dense_ffn = 40;
  const double dense = 32 * 3 * 2.0 * 40;
  const auto kept = [&](const char* name) { return layer_activation_bytes({model, {}, small_training(name)}); };
  EXPECT_DOUBLE_EQ(kept("none"), 0.75 * sparse + 0.25 * (without + dense));
  EXPECT_DOUBLE_EQ(kept("none") - kept("mlp"), 0.25 * dense);
  EXPECT_DOUBLE_EQ(kept("none") - kept("moe"), 0.75 * (sparse - without));
}

// DeepSeek-V3 over 16 stages: a layer works with 0.6 billion parameters of a token, a head in 16 bits as much as 3 such
// layers in 8, so that the last stage, with a further token's layer and both heads, keeps one of 61.
TEST(StateOfModelsOf2026, TheLastStageHasFewerLayersWhereItPredictsFurtherTokens) {
  ModelShape model = transformer_shape(
      {.name = "g", .layers = 61, .hidden = 64, .heads = 4, .ffn = 256, .vocab = 1000, .sequence = 16});
  Training training = {.global_batch = 8, .micro_batch = 1, .sequence = 16, .precision = find_precision("fp8").value()};
  const collection::ParallelConfig config = {.pp = 16};
  EXPECT_EQ(layers_per_stage({model, config, training}), collection::layers_per_stage(config, 61));
  training.mtp = 1;
  std::vector<int> expected(16, 4);
  expected.back() = 1;
  EXPECT_EQ(layers_per_stage({model, config, training}), expected);
  const collection::ParallelConfig named = {.pp = 2, .stages = {31, 30}};
  EXPECT_EQ(layers_per_stage({model, named, training}), named.stages);
}

// LoRA of rank 4 in a layer of GPT with h = 8: 4 · (8 + 24 + 8 + 8 + 8 + 32 + 32 + 8) elements have gradients and
// state.
TEST(StateOfModelsOf2026, AdaptersAreTrainedAlone) {
  const ModelShape model = transformer_shape(
      {.name = "g", .layers = 3, .hidden = 8, .heads = 4, .biases = true, .vocab = 300, .sequence = 16});
  Training training = {
      .global_batch = 8, .micro_batch = 2, .sequence = 16, .precision = find_precision("bf16").value(), .lora = 4};
  const StageMemory memory = memory_of({model, {}, training}).stages.front();
  const double adapters = 3 * 4 * (8 + 24 + 8 + 8 + 8 + 32 + 32 + 8);
  EXPECT_DOUBLE_EQ(memory.bytes(memory_term::kGradients), 4 * adapters);
  EXPECT_DOUBLE_EQ(memory.bytes(memory_term::kOptimizer), 12 * adapters);
  training.lora = 0;
  EXPECT_EQ(memory.bytes(memory_term::kParameters),
            memory_of({model, {}, training}).stages.front().bytes(memory_term::kParameters));
}

// A further token is predicted by a layer on the last stage and by the head once more.
TEST(StateOfModelsOf2026, FurtherTokensHaveALayerEach) {
  const ModelShape model = transformer_shape(
      {.name = "g", .layers = 4, .hidden = 8, .heads = 4, .biases = true, .vocab = 300, .sequence = 16});
  Training training = {
      .global_batch = 8, .micro_batch = 2, .sequence = 16, .precision = find_precision("bf16").value()};
  const MemoryEstimate none = memory_of({model, {.pp = 2, .stages = {2, 2}}, training});
  training.mtp = 1;
  const MemoryEstimate one = memory_of({model, {.pp = 2, .stages = {2, 2}}, training});
  EXPECT_EQ(one.stages[0].bytes(), none.stages[0].bytes());
  const double layer = static_cast<double>(model.layer_cut_params + model.layer_replicated_params);
  EXPECT_DOUBLE_EQ(one.stages[1].bytes(memory_term::kParameters) - none.stages[1].bytes(memory_term::kParameters),
                   2 * layer);
  EXPECT_DOUBLE_EQ(one.stages[1].bytes(memory_term::kLogits), 2 * none.stages[1].bytes(memory_term::kLogits));
}

// With the activations of 1F1B's first stage on every one, twice as many, one more.
TEST(InFlight, ZeroBubblesKeepActivationsForGradientsOfWeights) {
  for (const int stage : {0, 3, 7}) {
    EXPECT_EQ(in_flight({.schedule = Schedule::kZeroBubble1, .pp = 8, .micro_batches = 24}, stage), 8);
    EXPECT_EQ(in_flight({.schedule = Schedule::kZeroBubble2, .pp = 8, .micro_batches = 24}, stage), 16);
    EXPECT_EQ(in_flight({.schedule = Schedule::kDualPipe, .pp = 8, .micro_batches = 24}, stage), 9);
    EXPECT_EQ(in_flight({.schedule = Schedule::kZeroBubble2, .pp = 8, .micro_batches = 10}, stage), 10);
  }
}

}  // namespace layer_memory_test
}  // namespace scalai::step
