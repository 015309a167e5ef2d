// Buffers of communication and of the loss, with sizes that can be multiplied in the head.
#include <gtest/gtest.h>

#include <string_view>

#include "ptc/base/status.h"
#include "ptc/cost/step/memory.h"

namespace scalai::step {
namespace memory_buffers_test {

using collection::ParallelConfig;

// Queries 8·8, keys and values 2·2·2·8, output 8·8, feed-forward 3·8·20, norms 2·8: 688 elements a layer. The embedding
// and the head have 384 = 3·128 rows of 8.
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

Training small_training(std::string_view precision = "bf16") {
  return {.global_batch = 8, .micro_batch = 2, .sequence = 16, .precision = find_precision(precision).value()};
}

double term(const ParallelConfig& config, const Training& training, int stage, std::string_view name) {
  const ModelShape model = small_llama();
  return memory_of({model, config, training}).stages.at(static_cast<size_t>(stage)).bytes(name);
}

TEST(Buffers, ZeroThreeHasWholeGradientsOfALayer) {
  const ParallelConfig config = {.pp = 4, .dp = 2, .zero = 3};
  Training training = small_training();
  // The largest layer: with 2 bytes as computed, 4 as summed. On the last stage the head is larger.
  EXPECT_DOUBLE_EQ(term(config, training, 1, memory_term::kWholeGradients), (2 + 4) * 688);
  EXPECT_DOUBLE_EQ(term(config, training, 3, memory_term::kWholeGradients), (2 + 4) * (384 * 8 + 8));
  training.precision.gradient_bytes = 2;
  EXPECT_DOUBLE_EQ(term(config, training, 1, memory_term::kWholeGradients), (2 + 2) * 688);
  EXPECT_DOUBLE_EQ(term({.pp = 4, .dp = 2, .zero = 2}, training, 1, memory_term::kWholeGradients), 0);
}

// Largest matrices: gate and up of 8 · 20 each, where no head is larger.
TEST(Buffers, OnDemandZeroThreeHasAMatrixWhole) {
  const ParallelConfig config = {.pp = 4, .dp = 2, .zero = 3};
  Training training = small_training();
  training.data_overlap = DataOverlap::kNone;
  EXPECT_DOUBLE_EQ(term(config, training, 1, memory_term::kGathered), 2 * (2 * 8 * 20));
  EXPECT_DOUBLE_EQ(term(config, training, 1, memory_term::kWholeGradients), (2 + 4) * (2 * 8 * 20));
  EXPECT_DOUBLE_EQ(term(config, training, 3, memory_term::kGathered), 2 * (384 * 8 + 8));
  training.data_overlap = DataOverlap::kGradients;
  EXPECT_DOUBLE_EQ(term(config, training, 1, memory_term::kGathered), 2 * (688 + 0));
}

TEST(Buffers, OfSequenceAndContextParallelism) {
  Training training = small_training();
  const double tokens = 2 * 16;
  EXPECT_DOUBLE_EQ(term({.tp = 2}, training, 0, memory_term::kGatheredInput), tokens * 8 * 2);
  EXPECT_DOUBLE_EQ(term({.tp = 2, .cp = 2}, training, 0, memory_term::kGatheredInput), tokens / 2 * 8 * 2);
  // Keys and values, two of each; a rank of tp 4 has one of the two heads, of 2 elements.
  EXPECT_DOUBLE_EQ(term({.tp = 4, .cp = 2}, training, 0, memory_term::kRing), 4 * tokens / 2 * 2 * 2);
  EXPECT_DOUBLE_EQ(term({.tp = 2}, training, 0, memory_term::kRing), 0);
  training.sequence_parallel = false;
  EXPECT_DOUBLE_EQ(term({.tp = 2}, training, 0, memory_term::kGatheredInput), 0);
}

TEST(Buffers, OfMessagesBetweenStages) {
  const Training training = small_training();
  EXPECT_DOUBLE_EQ(term({.pp = 2}, training, 1, memory_term::kMessages), 2 * (2 * 16 * 8 * 2));
  EXPECT_DOUBLE_EQ(term({.tp = 2, .pp = 2}, training, 1, memory_term::kMessages), 2 * (2 * 16 * 8 * 2) / 2);
  EXPECT_DOUBLE_EQ(term({.tp = 2}, training, 0, memory_term::kMessages), 0);
  EXPECT_DOUBLE_EQ(term({.pp = 2}, training, 0, memory_term::kOutputs), 0);
}

// A token of 8 hidden elements: the inputs of QKV, projection (8) and both of the feed-forward part (8 and 20) have one
// byte less.
TEST(Activations, OfFp8KeepTheInputsOfMatricesInOneByte) {
  const ModelShape model = small_llama();
  const Training bf16 = small_training(), fp8 = small_training("fp8");
  const double tokens = 2 * 16;
  EXPECT_DOUBLE_EQ(layer_activation_bytes({model, {}, bf16}) - layer_activation_bytes({model, {}, fp8}),
                   tokens * (8 + 8 + 8 + 20));
}

TEST(Activations, OfOffloadedLayersAreNotOnTheGpu) {
  Training training = small_training();
  const double all = term({}, training, 0, memory_term::kActivations);
  training.offloaded_layers = 3;  // of 4
  EXPECT_DOUBLE_EQ(term({}, training, 0, memory_term::kActivations), all / 4);
  training.offloaded_layers = 5;
  EXPECT_DOUBLE_EQ(term({}, training, 0, memory_term::kActivations), 0);
}

TEST(Buffers, OfScaling) {
  Training training = small_training();
  training.framework = Framework::kScaling;
  training.precision.gradient_bytes = 2;
  // The last stage's parameters are fewer than a bucket: 2 bytes flattened, 4 in 32 bits.
  const ModelShape model = small_llama();
  const ParallelConfig config = {.tp = 2, .pp = 2, .dp = 2, .zero = 1};
  const double elements = stage_elements({model, config, training}, 1).dense;
  EXPECT_DOUBLE_EQ(term(config, training, 1, memory_term::kBuckets), (2 + 4) * elements);
  EXPECT_GT(term(config, training, 1, memory_term::kOutputs), 0);
  // Half of two inputs of 8 elements of 2 bytes more a token, of 32 tokens.
  const double here = layer_activation_bytes({model, config, training});
  training.framework = Framework::kMegatron;
  EXPECT_DOUBLE_EQ(here - layer_activation_bytes({model, config, training}), 32 * 2 * 8 * 2 / 2);
}

TEST(Buffers, OfDeepSpeed) {
  const Training training = small_training("zero-fp16");
  const ParallelConfig config = {.pp = 2, .dp = 2, .zero = 1};
  const double stage = 2 * 688 + 384 * 8;  // the first one, less than a bucket has
  EXPECT_DOUBLE_EQ(term(config, training, 0, memory_term::kBuckets), 2 * 2 * stage);
  // The norm takes 8 bytes of what the share has of the embedding: all of a half here.
  EXPECT_DOUBLE_EQ(term(config, training, 0, memory_term::kStep), 8 * stage / 2);
  // Without ZeRO nothing takes as much as the gradients as one tensor and in fp32; of a small share the search for
  // overflows.
  EXPECT_DOUBLE_EQ(term({.pp = 2, .dp = 2}, training, 0, memory_term::kStep), (2 + 4) * stage);
  EXPECT_DOUBLE_EQ(term({.pp = 2, .dp = 4, .zero = 1}, training, 0, memory_term::kStep), 4 * 384.0 * 8);
  EXPECT_DOUBLE_EQ(term({.dp = 4, .zero = 3}, training, 0, memory_term::kStep),
                   (2 + 4) * (4 * 688 + 2 * 384 * 8 + 8) / 4.0);
  // Two micro-batches a replica, both of them in flight on the first stage.
  EXPECT_DOUBLE_EQ(term(config, training, 0, memory_term::kOutputs), 2 * (2 * 16 * 8 * 2));
  EXPECT_DOUBLE_EQ(term(config, training, 1, memory_term::kOutputs), 1 * (2 * 16 * 8 * 2));
  EXPECT_DOUBLE_EQ(term(config, small_training("fp16"), 0, memory_term::kBuckets), 0);
}

TEST(Buffers, DeepSpeedOf2022LoadsAllKernels) {
  const ModelShape model = small_llama();
  const auto rest = [&](const char* precision) {
    const Training training = small_training(precision);
    const MemoryEstimate estimate = memory_of({model, {}, training});
    return estimate.margin_bytes - estimate.fragmentation_bytes;
  };
  EXPECT_NEAR(rest("fp16"), 640 * 1048576.0, 1);
  EXPECT_NEAR(rest("zero-fp16"), 1573 * 1048576.0, 1);
}

// 3 · 128 logits of 2·16 tokens: in fp32 once, or three times, and their gradient in 16 bits.
TEST(Buffers, EagerKernelsCopyLogits) {
  Training training = small_training();
  EXPECT_DOUBLE_EQ(term({}, training, 0, memory_term::kLogits), (4 + 2) * 384 * 32);
  training.kernels = Kernels::kEager;
  EXPECT_DOUBLE_EQ(term({}, training, 0, memory_term::kLogits), (3 * 4 + 2) * 384 * 32);
  training.loss = Loss::kFused;  // 16 bits, and as many for the gradient
  EXPECT_DOUBLE_EQ(term({}, training, 0, memory_term::kLogits), (2 + 2) * 384 * 32);
}

}  // namespace memory_buffers_test
}  // namespace scalai::step
