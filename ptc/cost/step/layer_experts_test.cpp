// What experts cost beside their products: biases, places of FP8 tokens, and messages beside another micro-batch.
#include <gtest/gtest.h>

#include "ptc/cost/step/internal/expert_kernels.h"
#include "ptc/cost/step/layer_work.h"
#include "ptc/cost/step/testing/step.h"

namespace scalai::step {
namespace layer_experts_test {

// Four local experts, two chosen, without biases.
ModelShape mixture(int64_t hidden = 4096) {
  ModelShape model = test_gpt(hidden, 32);
  model.biases = false;
  model.experts = 4;
  model.blocks = {.sparse = 1};
  model.experts_per_token = 2;
  return transformer_shape(model);
}

LayerWork layer(const ModelShape& model, const collection::ParallelConfig& config, const Training& training,
                const char* gpu = "h100-80g") {
  const Hardware hardware = uniform_hardware(test_host(gpu), config);
  return layer_work({model, config, training}, hardware, hardware.stage(0));
}

// An element of the 2 · 4 · 2048 copies of a token: written 4, sum 2 + 4 + 4, together 4 + 4, to 16 bits 4 + 2; back
// 2 + 4 + 4 + 2 + 2 · 2 + 2 · 12 and for the larger bias before the non-linearity 2 · 4.
TEST(LayerExperts, BiasesOfExpertsAreAddedInThirtyTwoBits) {
  const ModelShape none = mixture();
  ModelShape biased = none;
  biased.biases = true;
  biased.ffn = none.ffn;
  const Training training = test_training(4);
  const Hardware hardware = uniform_hardware(test_host("h100-80g"), {});
  const double rate = rates_of(hardware.stage(0), Math::kBF16).bytes_per_s;
  const double elements = 2 * 4 * 2048 * 4096.0;
  const LayerWork without = layer(none, {}, training), with = layer(biased, {}, training);
  EXPECT_NEAR(with.forward.memory_s - without.forward.memory_s, 28 * elements / rate, 1e-9);
  // The bias of the dense activation is summed in any case: 2 bytes of 2 · 4 · h elements a token.
  EXPECT_NEAR(with.backward.memory_s - without.backward.memory_s, (40 + 8 + 8) * elements / rate, 1e-9);
  // Short kernels take their launches: 2 of 4 experts and 2 of all forward.
  Training few = test_training(1);
  few.sequence = 16;
  const double launches = layer(biased, {}, few).forward.seconds() - layer(none, {}, few).forward.seconds();
  EXPECT_NEAR(launches, (2 * 4 + 2) * 11.3e-6, 1e-7);
  Training graphs = training;
  graphs.cuda_graphs = true;  // of whole steps: fused with the product
  EXPECT_NEAR(layer(biased, {}, graphs).forward.memory_s, layer(none, {}, graphs).forward.memory_s, 1e-12);
}

// All-to-all: 2 · 2 bytes of each element that came, before the experts and behind them, forward and back; not where
// one expert is here alone, nor by dispatchers that need no sorting. Messages are no memory time.
TEST(LayerExperts, WhatComesIsSortedByLocalExpert) {
  const collection::ParallelConfig two{.dp = 2, .ep = 2}, four{.dp = 4, .ep = 4};
  const Training training = test_training(4);
  Training once = training;
  once.dispatch = Dispatch::kOnce;
  const Hardware hardware = uniform_hardware(test_host("h100-80g"), two);
  const double bytes = 2 * 2 * (2 * 2 * 4 * 2048 * 4096.0);
  const double expected_s = bytes / rates_of(hardware.stage(0), Math::kBF16).bytes_per_s;
  const auto extra = [&](const collection::ParallelConfig& config) {
    const LayerWork sorted = layer(mixture(), config, training), placed = layer(mixture(), config, once);
    EXPECT_NEAR(sorted.backward.memory_s - placed.backward.memory_s, sorted.forward.memory_s - placed.forward.memory_s,
                1e-12);
    return sorted.forward.memory_s - placed.forward.memory_s;
  };
  EXPECT_NEAR(extra(two), expected_s, 1e-9);
  EXPECT_NEAR(extra(four), 0, 1e-12);
  EXPECT_NEAR(extra({.dp = 2}), 0, 1e-12);
}

// GPT-OSS: each half read and written, both read and written together: 8 · 2 bytes of each element of a half; back 3 a
// half and 4. The rest is its biases'.
TEST(LayerExperts, GatesAreClampedBesideBiases) {
  ModelShape gated = mixture();
  gated.gated = true;
  gated = transformer_shape(gated);
  ModelShape clamped = gated, plain = mixture(), biased = mixture();
  clamped.biases = true;
  biased.biases = true;
  const Training training = test_training(4);
  const Hardware hardware = uniform_hardware(test_host("h100-80g"), {});
  const double rate = rates_of(hardware.stage(0), Math::kBF16).bytes_per_s;
  const double elements = 2 * 4 * 2048 * static_cast<double>(gated.ffn);
  const auto biases_forward_s =
      layer(biased, {}, training).forward.memory_s - layer(plain, {}, training).forward.memory_s;
  const LayerWork with = layer(clamped, {}, training), without = layer(gated, {}, training);
  EXPECT_NEAR(with.forward.memory_s - without.forward.memory_s - biases_forward_s, 16 * elements / rate, 1e-9);
  const double biases_backward = 40 * 2 * 4 * 2048 * 4096.0;  // as above
  const double sums = (2 * 2 + 2) * elements;                 // of both halves' biases, and what dense blocks sum
  EXPECT_NEAR(with.backward.memory_s - without.backward.memory_s, (20 * elements + sums + biases_backward) / rate,
              1e-9);
}

// Of 128 small experts with few tokens each of two products waits for 128 launches of 11.3 µs, or for one kernel.
TEST(LayerExperts, ProductsOfAllExpertsAreOneKernelOrOneEach) {
  ModelShape model = mixture(512);
  model.experts = 128;
  model.blocks = {.sparse = 1};
  Training training = test_training(1);
  training.sequence = 128;
  const LayerWork each = layer(model, {}, training);
  training.grouped_experts = true;
  const LayerWork one = layer(model, {}, training);
  EXPECT_EQ(each.forward.matrix_s, one.forward.matrix_s);
  EXPECT_LT(one.forward.matrix_s, 0.5e-3);
  EXPECT_GT(each.forward.launch_s - one.forward.launch_s, 2 * 128 * 11.3e-6 - one.forward.matrix_s - 0.1e-3);
  model = mixture(4096);  // long products hide their launches
  training.sequence = 8192;
  const double long_one = layer(model, {}, training).forward.seconds();
  training.grouped_experts = false;
  EXPECT_NEAR(layer(model, {}, training).forward.seconds(), long_one, 0.02 * long_one);
}

// 4 local experts: 2 products of 3 kernels each to cast, in either direction; 11.3 µs a launch, 2 µs with graphs.
TEST(LayerExperts, TheirOperandsInFp8AreCastOneByOne) {
  ModelShape model = test_gpt(4096, 32);
  model.experts = 4;
  model.blocks = {.sparse = 1};
  model.experts_per_token = 2;
  Training training = test_training(4);
  training.precision = find_precision("fp8").value();
  const LayerWork host = layer(model, {}, training);
  training.cuda_graphs = true;
  const LayerWork graphs = layer(model, {}, training);
  const double at_least = (24 + 30) * (11.3e-6 - 2e-6);  // and the 30 of routing
  EXPECT_GE(host.forward.launch_s - graphs.forward.launch_s, at_least - 1e-9);
  EXPECT_GE(host.backward.launch_s - graphs.backward.launch_s, (24 + 43) * (11.3e-6 - 2e-6) - 1e-9);
  EXPECT_EQ(host.forward.matrix_s, graphs.forward.matrix_s);
}

// Into their places and back: 2 · 2 bytes an element each, in FP8 alone.
TEST(LayerExperts, TokensInFp8AreCopiedToTheirPlaces) {
  Training training = test_training(4);
  training.precision = find_precision("fp8").value();
  const double eight = layer(mixture(), {}, training).forward.memory_s;
  training.cuda_graphs = true;
  const double placed = layer(mixture(), {}, training).forward.memory_s;
  const Hardware hardware = uniform_hardware(test_host("h100-80g"), {});
  const double elements = 2 * 4 * 2048 * 4096.0;
  EXPECT_NEAR(eight - placed, 8 * elements / rates_of(hardware.stage(0), Math::kFP8).bytes_per_s, 1e-9);
}

// Read in 2 bytes, written twice in one: of attention the operand of its second product, of experts those of both, as
// no norm writes the first.
TEST(LayerExperts, BothOperandsOfTheirProductsAreCast) {
  Training training = test_training(4);
  training.cuda_graphs = true;  // nothing is copied to its place
  const double sixteen = layer(mixture(), {}, training).forward.memory_s;
  training.precision = find_precision("fp8").value();
  const double eight = layer(mixture(), {}, training).forward.memory_s;
  const Hardware hardware = uniform_hardware(test_host("h100-80g"), {});
  const double tokens = 4 * 2048, ffn = static_cast<double>(mixture().ffn);
  const double elements = tokens * 4096 + 2 * tokens * (4096 + ffn);
  EXPECT_NEAR(eight - sixteen, 4 * elements / rates_of(hardware.stage(0), Math::kFP8).bytes_per_s, 1e-9);
}

// Every token takes it: products of 24 · s · b · h · ffn back and forth, nothing that travels, cut by tp.
TEST(LayerExperts, ASharedExpertIsADenseBlockBesideThem) {
  const ModelShape none = mixture();
  ModelShape shared = none;
  shared.shared_ffn = 8192;
  shared = transformer_shape(shared);
  EXPECT_EQ(shared.parameters() - none.parameters(), int64_t{16} * 2 * 4096 * 8192);
  const Training training = test_training(4);
  const double tokens = 4 * 2048, products = 2 * tokens * 2 * 4096 * 8192;
  EXPECT_DOUBLE_EQ(model_flops(shared, 4, 2048) - model_flops(none, 4, 2048), 3 * 16 * products);
  const collection::ParallelConfig config = {.tp = 2, .dp = 8, .ep = 8};
  const LayerWork with = layer(shared, config, training), without = layer(none, config, training);
  EXPECT_EQ(with.forward.ep.seconds, without.forward.ep.seconds);
  EXPECT_GT(with.forward.tp.seconds, without.forward.tp.seconds);
  const Hardware hardware = uniform_hardware(test_host("h100-80g"), config);
  const double flops = rates_of(hardware.stage(0), Math::kBF16).product_flops;
  EXPECT_NEAR(with.forward.matrix_s - without.forward.matrix_s, products / 2 / flops, 0.1 * products / 2 / flops);
  EXPECT_NEAR(with.backward.matrix_s - without.backward.matrix_s, products / flops, 0.1 * products / flops);
}

// Each trip runs beside one part of the other micro-batch: a short attention leaves what is longer than itself.
TEST(LayerExperts, TripsRunBesideTheirPartOfAnotherMicroBatch) {
  ModelShape model = mixture();
  model.experts = 32;
  model.blocks = {.sparse = 1};
  model = transformer_shape(model);
  Training training = test_training(4);
  const collection::ParallelConfig config = {.dp = 32, .ep = 32};
  const LayerWork apart = layer(model, config, training);
  training.expert_overlap = true;
  const LayerWork beside = layer(model, config, training);
  const double trip = apart.forward.ep.seconds / 2;
  ModelShape dense = model;
  dense.experts = 0;
  dense.blocks = {.dense = 1};
  const Training alone = test_training(4);
  ModelShape thin = dense;
  thin.dense_ffn = 1;  // nearly attention alone
  const LayerWork attention = layer(thin, config, alone);
  ASSERT_GT(trip, attention.forward.seconds());
  EXPECT_LT(beside.forward.ep.seconds, apart.forward.ep.seconds);
  EXPECT_GT(beside.backward.ep.seconds, trip - attention.forward.seconds());
  EXPECT_EQ(beside.forward.compute_s(), apart.forward.compute_s());
}

}  // namespace layer_experts_test
}  // namespace scalai::step
