// Layers whose blocks differ, on the mean of all.
#include <gtest/gtest.h>

#include "ptc/cost/step/layer_work.h"
#include "ptc/cost/step/testing/step.h"

namespace scalai::step {
namespace layer_blocks_test {

LayerWork layer(const ModelShape& model, const collection::ParallelConfig& config, const Training& training,
                const Hardware& hardware) {
  return layer_work({model, config, training}, hardware, hardware.stage(0));
}

LayerWork layer(const ModelShape& model, const collection::ParallelConfig& config, const Training& training) {
  return layer(model, config, training, uniform_hardware(test_host(), config));
}

// Seconds of `flops` at the large-product rate of the test host's GPU.
double at_product_rate(double flops) { return flops / rates_of({.gpu = test_host().gpu}, Math::kBF16).product_flops; }

// A layer is the mean of the model's layers: each block as often as they have it.
TEST(LayerBlocks, IsTheSumOfItsBlocks) {
  const Training training = test_training(1);
  ModelShape model = test_gpt(4096, 32);
  model.state_space = {.inner = 8192, .groups = 1024, .heads = 128, .state = 128};
  model.experts = 8;
  model.experts_per_token = 2;
  const auto with = [&](const Blocks& blocks) {
    model.blocks = blocks;
    return layer(model, {}, training);
  };
  const LayerWork attention = with({.attention = 1}), mamba = with({.attention = 0, .state_space = 1});
  const LayerWork dense = with({.attention = 0, .dense = 1}), sparse = with({.attention = 0, .sparse = 1});
  const LayerWork all = with({.attention = 0.25, .state_space = 0.5, .dense = 0.125, .sparse = 0.75});
  const auto sum = [&](auto of) {
    return 0.25 * of(attention) + 0.5 * of(mamba) + 0.125 * of(dense) + 0.75 * of(sparse);
  };
  const auto forward_s = [](const LayerWork& work) { return work.forward.seconds(); };
  const auto backward_s = [](const LayerWork& work) { return work.backward.seconds(); };
  EXPECT_NEAR(forward_s(all), sum(forward_s), 1e-12);
  EXPECT_NEAR(backward_s(all), sum(backward_s), 1e-12);
  // Of a state-space block the matrices: 4096 · (2 · 8192 + 2 · 1024 + 128 + 8192) multiplications a token.
  const double matrices = at_product_rate(2.0 * 2048 * 4096 * (3 * 8192 + 2 * 1024 + 128));
  EXPECT_GT(mamba.forward.matrix_s, matrices);
  EXPECT_LT(mamba.forward.matrix_s, 1.5 * matrices);
}

// 512 of 8192 tokens in every other layer: pairs of tokens are 512 · 8192 − 512²/2 of 8192²/2, 12.1 %.
TEST(LayerBlocks, WindowsLeaveTheirPartOfAttention) {
  ModelShape model = test_gpt(4096, 32);
  model.positions = false;
  Training training = test_training(1);
  training.sequence = 8192;
  const LayerWork whole = layer(model, {}, training);
  model.window = 512;
  model.windowed = 0.5;
  EXPECT_NEAR(model.attended(8192), 0.5 + 0.5 * 0.12109375, 1e-12);
  const LayerWork half = layer(model, {}, training);
  model.windowed = 1;
  const LayerWork all = layer(model, {}, training);
  const double core = at_product_rate(2.0 * 8192 * 8192 * 4096) / 0.826;
  EXPECT_NEAR(whole.forward.matrix_s - all.forward.matrix_s, (1 - 0.12109375) * core, 0.15 * core);
  EXPECT_NEAR(whole.forward.matrix_s - half.forward.matrix_s, (whole.forward.matrix_s - all.forward.matrix_s) / 2,
              1e-9);
  EXPECT_EQ(model.attended(512), 1);  // a shorter sample
}

// The rank with the most experts' tokens is waited for: products and messages of so many more.
TEST(LayerBlocks, AnUnevenRouterIsAsSlowAsItsFullestRank) {
  ModelShape model = test_gpt(4096, 32);
  model.experts = 8;
  model.experts_per_token = 2;
  model.blocks = {.attention = 0, .sparse = 1};
  const collection::ParallelConfig config = {.dp = 8, .ep = 8};
  Training training = test_training(4);
  const LayerWork even = layer(model, config, training);
  training.imbalance = 1.5;
  const LayerWork uneven = layer(model, config, training);
  EXPECT_NEAR(uneven.forward.ep.seconds / even.forward.ep.seconds, 1.5, 0.03);  // latency stays
  EXPECT_NEAR(uneven.forward.matrix_s / even.forward.matrix_s, 1.5, 0.1);
}

// LoRA: no gradients of the weights, a third of the products, but of adapters that memory bounds.
TEST(LayerBlocks, FrozenWeightsHaveNoGradients) {
  const ModelShape model = test_gpt(4096, 32);
  Training training = test_training(4);
  const LayerWork all = layer(model, {}, training);
  training.lora = 16;
  const LayerWork adapters = layer(model, {}, training);
  const double products = at_product_rate(2.0 * 4 * 2048 * 12 * 4096 * 4096);
  EXPECT_NEAR(all.backward.matrix_s - adapters.backward.matrix_s, products, 0.1 * products);
  EXPECT_EQ(all.forward.matrix_s, adapters.forward.matrix_s);
  // Inputs read and results added to, of the four matrices of GPT: (1 + 1 + 1 + 4) h and 2 · (3 + 1 + 4 + 1) h.
  const double rate = rates_of({.gpu = test_host().gpu}, Math::kBF16).bytes_per_s, h = 2.0 * 4 * 2048 * 4096 / rate;
  EXPECT_NEAR(adapters.forward.memory_s - all.forward.memory_s, (7 + 18) * h, 1e-9);
  training.lora_qkv = true;
  EXPECT_NEAR(layer(model, {}, training).forward.memory_s - all.forward.memory_s, (1 + 6) * h, 1e-9);
}

// Twice the norms: 2 elements of 2 bytes more a token and block forward, 5 backward. Norms of 32 heads of 128 and as
// many keys: of twice 4096 elements.
TEST(LayerBlocks, NormsAreCounted) {
  ModelShape model = test_gpt(4096, 32);
  const Training training = test_training(4);
  const double rate = rates_of({.gpu = test_host().gpu}, Math::kBF16).bytes_per_s, moved = 2.0 * 4 * 2048 * 4096 / rate;
  const LayerWork one = layer(model, {}, training);
  model.blocks.norms = 2;
  const LayerWork two = layer(model, {}, training);
  EXPECT_NEAR(two.forward.memory_s - one.forward.memory_s, 2 * 2 * moved, 1e-9);
  EXPECT_NEAR(two.backward.memory_s - one.backward.memory_s, 2 * 5 * moved, 1e-9);
  model.blocks.norms = 1;
  model.query_norms = true;
  EXPECT_NEAR(layer(model, {}, training).forward.memory_s - one.forward.memory_s, 2 * 2 * moved, 1e-9);
}

}  // namespace layer_blocks_test
}  // namespace scalai::step
