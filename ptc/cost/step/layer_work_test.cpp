#include "ptc/cost/step/layer_work.h"

#include <gtest/gtest.h>

#include "ptc/cost/step/testing/step.h"

namespace scalai::step {
namespace {

LayerWork layer(const ModelShape& model, const collection::ParallelConfig& config, const Training& training,
                const Hardware& hardware) {
  return layer_work({model, config, training}, hardware, hardware.stage(0));
}

LayerWork layer(const ModelShape& model, const collection::ParallelConfig& config, const Training& training) {
  return layer(model, config, training, uniform_hardware(test_host(), config));
}

// Seconds of `flops` at the large-product rate of the test host's GPU.
double at_product_rate(double flops) { return flops / rates_of({.gpu = test_host().gpu}, Math::kBF16).product_flops; }
double at_memory_rate(double bytes) { return bytes / rates_of({.gpu = test_host().gpu}, Math::kBF16).bytes_per_s; }

TEST(LayerWork, ProductsAreWhatTheFlopsSayAndAThirdOfThemForward) {
  const ModelShape model = test_gpt(8192, 64);
  const Training training = test_training(4);
  const LayerWork work = layer(model, {}, training);
  // 24·b·s·h² in large products and b·s·s·h·4, halved by the mask, in fused attention.
  const double h = 8192, tokens = 4 * 2048;
  const double dense = at_product_rate(24 * tokens * h * h), attention = at_product_rate(2 * tokens * 2048 * h);
  EXPECT_GT(work.forward.matrix_s, dense + attention);
  EXPECT_LT(work.forward.matrix_s, 1.12 * dense + 1.6 * attention);
  EXPECT_NEAR(work.backward.matrix_s / work.forward.matrix_s, 2, 0.1);
}

TEST(LayerWork, AttentionBothWaysIsAboutTwiceThatOfTheCausalMask) {
  ModelShape model = test_gpt(8192, 64);
  Training training = test_training(4);
  const LayerWork causal = layer(model, {}, training);
  model.causal = false;
  const LayerWork both = layer(model, {}, training);
  // 4·b·s·s·h FLOPs, in tiles of which each has its start and end, once whether masked or not; 2.5 times as many back.
  const double half = at_product_rate(2.0 * 4 * 2048 * 2048 * 8192);
  EXPECT_NEAR(both.forward.matrix_s - causal.forward.matrix_s, half / 0.826, 0.2 * half);
  EXPECT_NEAR(both.backward.matrix_s - causal.backward.matrix_s, 2.5 * half / 0.706, 0.6 * half);
  // Without it all scores are computed and masked.
  training.flash_attention = false;
  const double unfused = layer(model, {}, training).forward.matrix_s;
  model.causal = true;
  EXPECT_EQ(layer(model, {}, training).forward.matrix_s, unfused);
}

TEST(LayerWork, MemoryBoundWorkIsTheSumOfItsKernels) {
  ModelShape model = test_gpt(8192, 64);
  const Training training = test_training(1);
  const double sbh = 2048.0 * 8192;
  // Forward: two norms (2 elements read and written), two residuals (3, and a byte of mask), GeLU on 4h.
  const double forward = 2 * 2 * 2 + 2 * (3 * 2 + 1) + 4 * 2 * 2;
  EXPECT_NEAR(layer(model, {}, training).forward.memory_s, at_memory_rate(forward * sbh), 1e-9);
  // Backward: norms 5, residuals 3 and the mask applied (2 and a byte), GeLU 3 and the bias's sum.
  const double backward = 2 * 5 * 2 + 2 * (3 * 2 + 5) + 4 * (3 + 1) * 2;
  EXPECT_NEAR(layer(model, {}, training).backward.memory_s, at_memory_rate(backward * sbh), 1e-9);
  // Without dropout the masks go; rotary embedding reads and writes queries and keys.
  model.dropout = false;
  model.positions = false;
  EXPECT_NEAR(layer(model, {}, training).forward.memory_s, at_memory_rate((forward - 2 + 2 * 2 * 2) * sbh), 1e-9);
}

TEST(LayerWork, ScoresAreReadAndWrittenWithoutFlashAttention) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(1);
  const LayerWork fused = layer(model, {}, training);
  training.flash_attention = false;
  const LayerWork unfused = layer(model, {}, training);
  const double scores = 64 * 2048.0 * 2048;
  EXPECT_NEAR(unfused.forward.memory_s - fused.forward.memory_s, at_memory_rate((4 + 5) * scores), 1e-9);
  EXPECT_NEAR(unfused.backward.memory_s - fused.backward.memory_s, at_memory_rate((6 + 5) * scores), 1e-9);
  EXPECT_GT(unfused.forward.matrix_s, fused.forward.matrix_s);
}

TEST(LayerWork, TensorParallelismDividesProductsAndAddsTwoCollectivesEachWay) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(4);
  training.overlap = Overlap::kNone;
  training.sequence_parallel = false;
  collection::ParallelConfig config;
  EXPECT_EQ(layer(model, config, training).forward.tp.seconds, 0);
  const LayerWork whole = layer(model, config, training);
  config.tp = 8;
  const LayerWork cut = layer(model, config, training);
  EXPECT_NEAR(cut.forward.matrix_s / whole.forward.matrix_s, 1 / 8.0, 0.02);
  const Hardware hardware = uniform_hardware(test_host(), config);
  const double one = collective(links_of(hardware), Collective::kAllReduce, hardware.tp, 2.0 * 4 * 2048 * 8192).seconds;
  EXPECT_NEAR(cut.forward.tp.seconds, 2 * one, 1e-12);
  EXPECT_NEAR(cut.backward.tp.seconds, 2 * one, 1e-12);
}

TEST(LayerWork, SequenceParallelismCutsWhatLiesBetweenAndGathersInputsAgain) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(4);
  training.overlap = Overlap::kNone;
  collection::ParallelConfig config;
  config.tp = 8;
  const Hardware hardware = uniform_hardware(test_host(), config);
  const double part =
      collective(links_of(hardware), Collective::kAllGather, hardware.tp, 2.0 * 4 * 2048 * 8192).seconds;
  const LayerWork cut = layer(model, config, training);
  EXPECT_NEAR(cut.forward.tp.seconds, 4 * part, 1e-12);
  EXPECT_NEAR(cut.backward.tp.seconds, 6 * part, 1e-12);
  training.sequence_parallel = false;
  EXPECT_LT(cut.forward.memory_s, 0.5 * layer(model, config, training).forward.memory_s);
}

// Aleph Alpha's framework: of SwiGLU's two matrices each sums its input gradient, so three sums a layer back; with
// sequence parallelism the gathered inputs are kept, so two gathers and two scatters back.
TEST(LayerWork, ScalingSumsEachInputGradientAndKeepsGatheredInputs) {
  ModelShape model = test_gpt(8192, 64);
  model.gated = true;
  Training training = test_training(4);
  training.overlap = Overlap::kNone;
  training.framework = Framework::kScaling;
  collection::ParallelConfig config;
  config.tp = 8;
  const Hardware hardware = uniform_hardware(test_host(), config);
  const double bytes = 2.0 * 4 * 2048 * 8192;
  const double part = collective(links_of(hardware), Collective::kAllGather, hardware.tp, bytes).seconds;
  const double whole = collective(links_of(hardware), Collective::kAllReduce, hardware.tp, bytes).seconds;
  EXPECT_NEAR(layer(model, config, training).forward.tp.seconds, 4 * part, 1e-12);
  EXPECT_NEAR(layer(model, config, training).backward.tp.seconds, 4 * part, 1e-12);
  training.sequence_parallel = false;
  EXPECT_NEAR(layer(model, config, training).forward.tp.seconds, 2 * whole, 1e-12);
  EXPECT_NEAR(layer(model, config, training).backward.tp.seconds, 3 * whole, 1e-12);
  // SwiGLU in its own steps: 10 bytes instead of 6 an element of the rank, forward.
  const double fused = at_memory_rate(4.0 * 4 * 2048 * static_cast<double>(model.ffn) / 8);
  const double here = layer(model, config, training).forward.memory_s;
  training.framework = Framework::kMegatron;
  EXPECT_NEAR(here - layer(model, config, training).forward.memory_s, fused, 1e-9);
}

TEST(LayerWork, OverlapHidesMoreTheMoreOfItThereIs) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(4);
  collection::ParallelConfig config;
  config.tp = 8;
  const auto seconds = [&](Overlap overlap) {
    training.overlap = overlap;
    const LayerWork work = layer(model, config, training);
    return std::pair(work.forward.tp.seconds, work.backward.tp.seconds);
  };
  const auto none = seconds(Overlap::kNone), weights = seconds(Overlap::kWeightGradients), all = seconds(Overlap::kAll);
  EXPECT_EQ(none.first, weights.first);
  EXPECT_GT(none.second, weights.second);
  EXPECT_GT(weights.first, all.first);
  EXPECT_GT(weights.second, all.second);
  EXPECT_GT(all.first, 0);
}

TEST(LayerWork, GradientsAddedUpByTheirOwnKernelMoveTheWeightsOnceMore) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(1);
  const LayerWork fused = layer(model, {}, training);
  training.overlap = Overlap::kNone;
  const double weights = 12.0 * 8192 * 8192;
  EXPECT_NEAR(layer(model, {}, training).backward.memory_s - fused.backward.memory_s,
              at_memory_rate(weights * (2 * 4 + 2)), 1e-9);
}

TEST(LayerWork, RecomputationIsOneForwardPassOrItsAttentionCore) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(2);
  training.flash_attention = false;
  collection::ParallelConfig config;
  config.tp = 4;
  const LayerWork none = layer(model, config, training);
  training.recompute = Recompute::kFull;
  const LayerWork full = layer(model, config, training);
  EXPECT_NEAR(full.backward.seconds(), none.backward.seconds() + none.forward.seconds(), 1e-12);
  EXPECT_EQ(full.forward.seconds(), none.forward.seconds());
  training.recompute = Recompute::kSelective;
  const LayerWork selective = layer(model, config, training);
  EXPECT_GT(selective.backward.seconds(), none.backward.seconds());
  EXPECT_LT(selective.backward.seconds(), full.backward.seconds());
  EXPECT_EQ(selective.backward.tp.seconds, none.backward.tp.seconds);
  const double scores = 2 * 16 * 2048.0 * 2048;
  EXPECT_NEAR(selective.backward.memory_s - none.backward.memory_s, at_memory_rate((4 + 5) * scores), 1e-9);
}

double again_s(const ModelShape& model, const collection::ParallelConfig& config, Training training,
               const char* recompute) {
  training.recompute = Recompute::kNone;
  const double none = layer(model, config, training).backward.seconds();
  training.recompute = find_recompute(recompute).value();
  return layer(model, config, training).backward.seconds() - none;
}

// A norm reads and writes 2 · 2 bytes an element. The feed-forward block has its products and what tp sends for them.
TEST(LayerWork, PartsOfALayerAreComputedAgain) {
  const ModelShape model = test_gpt(8192, 64);
  const Training training = test_training(4);
  const collection::ParallelConfig config = {.tp = 4};
  const double norms = at_memory_rate(2 * 4 * 4 * 2048 * 8192.0 / 4);
  EXPECT_NEAR(again_s(model, config, training, "layernorm"), norms, 0.1 * norms);
  const LayerWork none = layer(model, config, training);
  const double block = again_s(model, config, training, "mlp");
  EXPECT_GT(block, at_product_rate(2 * 4 * 2048 * 8.0 * 8192 * 8192 / 4) + none.forward.tp.seconds / 2);
  EXPECT_LT(block, 0.75 * none.forward.seconds());
  EXPECT_NEAR(again_s(model, config, training, "layernorm+mlp"), again_s(model, config, training, "layernorm") + block,
              1e-9);
  EXPECT_EQ(again_s(model, config, training, "moe"), 0);  // it has no experts
}

// Of seven matrices of a gated layer: keys, projection and the third of the feed-forward block; no attention.
TEST(LayerWork, EveryOtherProductIsComputedAgain) {
  ModelShape model = test_gpt(8192, 64);
  model.gated = true;
  model.kv_heads = 8;
  const Training training = test_training(4);
  const double tokens = 4 * 2048, h = 8192;
  const double products = at_product_rate(2 * tokens * h * (h / 8 + h + 4 * h));
  const double again = again_s(model, {}, training, "op");
  EXPECT_GT(again, products);
  EXPECT_LT(again, 1.3 * products);
}

TEST(LayerWork, ExpertsAreComputedAgainWithTheirTrips) {
  ModelShape model = test_gpt(4096, 32);
  model.experts = 8;
  model.blocks = {.sparse = 1};
  model.experts_per_token = 2;
  model = transformer_shape(model);
  const Training training = test_training(4);
  const collection::ParallelConfig config = {.dp = 8, .ep = 8};
  const LayerWork none = layer(model, config, training);
  Training again = training;
  again.recompute = find_recompute("moe").value();
  const LayerWork with = layer(model, config, again);
  EXPECT_NEAR(with.backward.ep.seconds - none.backward.ep.seconds, none.forward.ep.seconds, 1e-12);
  EXPECT_GT(with.backward.matrix_s, none.backward.matrix_s + 0.5 * none.forward.matrix_s);
  const double act = again_s(model, config, training, "moe_act");
  EXPECT_GT(act, 0);
  EXPECT_LT(act, 0.1 * again_s(model, config, training, "moe"));
  // Messages are kept where operations are computed again.
  again.recompute = find_recompute("op").value();
  EXPECT_EQ(layer(model, config, again).backward.ep.seconds, none.backward.ep.seconds);
}

TEST(LayerWork, GroupedQueriesAndGatedActivationsCountTheirMatrices) {
  const ModelShape gpt = test_gpt(8192, 64);
  ModelShape grouped = gpt;
  grouped.kv_heads = 8;
  ModelShape gated = gpt;
  gated.gated = true;
  const Training training = test_training(4);
  const double tokens = 4 * 2048, h = 8192;
  const double whole = layer(gpt, {}, training).forward.matrix_s;
  EXPECT_NEAR(whole - layer(grouped, {}, training).forward.matrix_s, at_product_rate(2 * tokens * h * 2 * (h - h / 8)),
              0.1 * whole);
  EXPECT_NEAR(layer(gated, {}, training).forward.matrix_s - whole, at_product_rate(2 * tokens * h * 4 * h),
              0.1 * whole);
}

TEST(LayerWork, ContextParallelismDividesAttentionAndSendsKeysAround) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(1);
  training.sequence = 32768;
  collection::ParallelConfig config;
  const LayerWork whole = layer(model, config, training);
  EXPECT_EQ(whole.forward.cp.seconds, 0);
  config.cp = 8;
  const LayerWork cut = layer(model, config, training);
  EXPECT_NEAR(cut.forward.matrix_s / whole.forward.matrix_s, 1 / 8.0, 0.02);
  EXPECT_GT(cut.forward.cp.seconds, 0);
  // Long sequences hide the ring, all but the part that slows attention down.
  const Hardware hardware = uniform_hardware(test_host(), config);
  const double step = message(links_of(hardware), false, 2.0 * 2 * 8192 * 4096).seconds;
  EXPECT_LT(cut.forward.cp.seconds, 0.2 * 7 * step);
  EXPECT_GT(cut.backward.cp.seconds, 1.9 * cut.forward.cp.seconds);
}

TEST(LayerWork, ExpertsComputeTheTokensOfThoseChosenAndSendThemBothWays) {
  ModelShape dense = test_gpt(4096, 32);
  dense.biases = false;
  ModelShape sparse = dense;
  sparse.experts = 8;
  sparse.blocks = {.sparse = 1};
  sparse.experts_per_token = 2;
  const Training training = test_training(4);
  const LayerWork one = layer(dense, {}, training), all = layer(sparse, {}, training);
  EXPECT_NEAR(all.forward.matrix_s - one.forward.matrix_s, at_product_rate(16.0 * 4 * 2048 * 4096 * 4096),
              0.1 * one.forward.matrix_s);
  EXPECT_EQ(all.forward.ep.seconds, 0);
  EXPECT_EQ(one.forward.ep.seconds, 0);
  collection::ParallelConfig config;
  config.dp = 8;
  config.ep = 8;
  const LayerWork spread = layer(sparse, config, training);
  const Hardware hardware = uniform_hardware(test_host(), config);
  const double trip =
      collective(links_of(hardware), Collective::kAllToAll, hardware.ep, 2.0 * 2 * 4 * 2048 * 4096).seconds;
  EXPECT_NEAR(spread.forward.ep.seconds, 2 * trip, 1e-12);
  EXPECT_NEAR(spread.backward.ep.seconds, 2 * trip, 1e-12);
  // With tensor parallelism each rank sends the tokens that are its own.
  config.tp = 2;
  EXPECT_NEAR(layer(sparse, config, training).forward.ep.seconds, trip, 0.1 * trip);
  // As many tokens for each of fewer experts: the same work.
  EXPECT_NEAR(spread.forward.matrix_s, all.forward.matrix_s, 0.05 * all.forward.matrix_s);
}

TEST(LayerWork, TokensMayGoOnceAndBesideOtherWork) {
  ModelShape model = test_gpt(4096, 32);
  model.experts = 16;
  model.blocks = {.sparse = 1};
  model.experts_per_token = 4;
  Training training = test_training(4);
  collection::ParallelConfig config;
  config.dp = config.ep = 16;  // two hosts
  const LayerWork copies = layer(model, config, training);
  training.dispatch = Dispatch::kOnce;
  const LayerWork once = layer(model, config, training);
  const Hardware hardware = uniform_hardware(test_host(), config);
  const double trip = dispatch_once(links_of(hardware), hardware.ep, 2.0 * 4 * 2048 * 4096, 4).seconds;
  EXPECT_NEAR(once.forward.ep.seconds, 2 * trip, 1e-12);
  EXPECT_LT(once.forward.ep.seconds, 0.6 * copies.forward.ep.seconds);
  // The work of another micro-batch hides all but 0.15 of it.
  training.expert_overlap = true;
  const LayerWork hidden = layer(model, config, training);
  EXPECT_GT(hidden.forward.compute_s(), 2 * trip);
  EXPECT_NEAR(hidden.forward.ep.seconds, 0.15 * 2 * trip, 1e-12);
  EXPECT_EQ(hidden.forward.compute_s(), once.forward.compute_s());
}

TEST(LayerWork, Fp8IsFasterInProductsAndCastsItsOperands) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(4);
  collection::ParallelConfig config;
  const Hardware hardware = uniform_hardware(test_host("h100-80g"), config);
  const LayerWork bf16 = layer(model, config, training, hardware);
  training.precision = find_precision("fp8").value();
  const LayerWork fp8 = layer(model, config, training, hardware);
  EXPECT_LT(fp8.forward.matrix_s, 0.75 * bf16.forward.matrix_s);
  EXPECT_GT(fp8.forward.matrix_s, 0.5 * bf16.forward.matrix_s);
  EXPECT_GT(fp8.forward.memory_s, bf16.forward.memory_s);
}

TEST(LayerWork, HalfTheSpeedTakesTwiceTheTime) {
  const ModelShape model = test_gpt(8192, 64);
  const Training training = test_training(2);
  collection::ParallelConfig config;
  const Hardware hardware = uniform_hardware(test_host(), config);
  StageGpu slow = hardware.stage(0);
  slow.speed = 0.5;
  const LayerWork full = layer_work({model, config, training}, hardware, hardware.stage(0));
  const LayerWork half = layer_work({model, config, training}, hardware, slow);
  EXPECT_NEAR(half.forward.matrix_s, 2 * full.forward.matrix_s, 1e-12);
  EXPECT_NEAR(half.backward.memory_s, 2 * full.backward.memory_s, 1e-12);
}

// Korthikanti et al. 2022, Table 4: one layer of the model of 22 billion on eight A100, in milliseconds. Not fitted.
TEST(LayerWork, APublishedLayerTakesItsTime) {
  const ModelShape model = test_gpt(6144, 64);
  Training training = test_training(4);
  training.precision = find_precision("fp16").value();
  training.flash_attention = false;
  collection::ParallelConfig config;
  config.tp = 8;
  struct Row {
    bool sequence_parallel;
    Recompute recompute;
    double forward_ms, backward_ms;
  };
  for (const Row& row : {Row{false, Recompute::kNone, 7.7, 11.9}, Row{true, Recompute::kNone, 7.2, 11.8},
                         Row{false, Recompute::kFull, 7.7, 19.5}, Row{false, Recompute::kSelective, 7.7, 13.2},
                         Row{true, Recompute::kSelective, 7.2, 13.1}}) {
    training.sequence_parallel = row.sequence_parallel;
    training.recompute = row.recompute;
    const LayerWork work = layer(model, config, training);
    EXPECT_NEAR(1e3 * work.forward.seconds(), row.forward_ms, 0.05 * row.forward_ms);
    EXPECT_NEAR(1e3 * work.backward.seconds(), row.backward_ms, 0.05 * row.backward_ms);
  }
}

TEST(LayerWork, WhatIsLeftOfAnOverlappedCollective) {
  const Communication whole{.link = Communication::Link::kGpuLink, .latency_s = 1, .bytes = 90, .seconds = 10};
  EXPECT_DOUBLE_EQ(exposed(whole, 4).seconds, 6);
  EXPECT_DOUBLE_EQ(exposed(whole, 4).bytes, 54);
  EXPECT_DOUBLE_EQ(exposed(whole, 0).seconds, 10);
  const double least = exposed(whole, 1e9).seconds;
  EXPECT_GT(least, 0);
  EXPECT_LT(least, 3);
  EXPECT_DOUBLE_EQ(exposed(whole, 1e9, 0.5).seconds, 5);
  EXPECT_EQ(exposed({}, 1).seconds, 0);
}

// PyTorch's own steps read and write what fused kernels keep: in 16 bits 36 bytes an element of a norm forward, not 4;
// 5 of 3 elements of a SwiGLU; 10 of 2 of a rotary embedding. LayerNorm and GELU are one kernel in PyTorch as well.
TEST(LayerWork, EagerKernelsMoveWhatFusedOnesKeep) {
  ModelShape model = shape_of(model::find_model("llama2-7b").value());
  Training training = test_training(1, 64);
  const collection::ParallelConfig config;
  const Hardware hardware = uniform_hardware(test_host(), config);
  const auto memory_s = [&](Kernels kernels) {
    training.kernels = kernels;
    return layer_work({model, config, training}, hardware, hardware.stage(0)).forward.memory_s;
  };
  const double tokens = training.sequence, h = 4096, ffn = 11008;
  const double rate = rates_of(hardware.stage(0), training.precision.math).bytes_per_s;
  const double norms = 2 * (36 - 4) * tokens * h, swiglu = (5 - 3) * 2 * tokens * ffn;
  const double rotary = (10 - 2) * 2 * tokens * 2 * h;
  const double more = memory_s(Kernels::kEager) - memory_s(Kernels::kFused);
  EXPECT_NEAR(more, (norms + swiglu + rotary) / rate, 1e-6 * more);
  EXPECT_EQ(memory_s(Kernels::kTuned), memory_s(Kernels::kFused));
  model = test_gpt(4096, 32, 4);
  EXPECT_EQ(memory_s(Kernels::kEager), memory_s(Kernels::kFused));
}

TEST(LayerWork, SumsAndMultiplesTakeEveryTerm) {
  ChunkWork one;
  one.matrix_s = 1;
  one.memory_s = 2;
  one.launch_s = 3;
  one.tp.seconds = 4;
  one.cp.seconds = 5;
  one.ep.seconds = 6;
  one.dp.seconds = 7;
  EXPECT_DOUBLE_EQ(one.seconds(), 28);
  EXPECT_DOUBLE_EQ(times(one, 3).seconds(), 84);
  EXPECT_DOUBLE_EQ(together(one, times(one, 2)).seconds(), 84);
  EXPECT_DOUBLE_EQ(times(one, 3).compute_s(), 18);
}

}  // namespace
}  // namespace scalai::step
