// The embedding and the head.
#include <gtest/gtest.h>

#include "ptc/cost/step/layer_work.h"
#include "ptc/cost/step/testing/step.h"

namespace scalai::step {
namespace layer_ends_test {

// Seconds of `flops` at the large-product rate of the test host's GPU.
double at_product_rate(double flops) { return flops / rates_of({.gpu = test_host().gpu}, Math::kBF16).product_flops; }

TEST(LayerEnds, EndsAreTheEmbeddingAndTheLogits) {
  const ModelShape model = test_gpt(8192, 64);
  const Training training = test_training(1);
  collection::ParallelConfig config;
  const Hardware hardware = uniform_hardware(test_host(), config);
  const LayerWork first = first_work({model, config, training}, hardware, hardware.stage(0));
  const LayerWork last = last_work({model, config, training}, hardware, hardware.stage(0));
  EXPECT_EQ(first.forward.matrix_s, 0);
  EXPECT_GT(first.forward.memory_s, 0);
  EXPECT_GT(first.backward.memory_s, 0);
  const double logits = at_product_rate(2.0 * 2048 * 8192 * 51200);
  EXPECT_NEAR(last.forward.matrix_s, logits, 0.1 * logits);
  EXPECT_NEAR(last.backward.matrix_s, 2 * logits, 0.2 * logits);
  config.tp = 8;
  const Hardware cut = uniform_hardware(test_host(), config);
  EXPECT_NEAR(last_work({model, config, training}, cut, cut.stage(0)).forward.matrix_s, logits / 8, 0.02 * logits);
}

// 60 bytes a logit step by step, 32 put together, 10 in 16 bits; 2048 · 51200 logits.
TEST(LayerEnds, TheLossHasAsManyBytesAsItsKernelsReadAndWrite) {
  const ModelShape model = test_gpt(8192, 64);
  Training training = test_training(1);
  const Hardware hardware = uniform_hardware(test_host(), {});
  const double rate = rates_of(hardware.stage(0), Math::kBF16).bytes_per_s / (2048 * 51200.0);
  const auto memory_s = [&](std::optional<Loss> loss) {
    training.loss = loss;
    const LayerWork last = last_work({model, {}, training}, hardware, hardware.stage(0));
    return last.forward.memory_s + last.backward.memory_s;
  };
  const double separate = memory_s(Loss::kSeparate);
  EXPECT_NEAR(separate - memory_s(Loss::kCompiled), (60 - 32) / rate, 1e-9);
  EXPECT_NEAR(separate - memory_s(Loss::kFused), (60 - 10) / rate, 1e-9);
  EXPECT_EQ(memory_s(std::nullopt), separate);
  training.kernels = Kernels::kTuned;
  EXPECT_EQ(memory_s(std::nullopt), memory_s(Loss::kCompiled));
}

}  // namespace layer_ends_test
}  // namespace scalai::step
