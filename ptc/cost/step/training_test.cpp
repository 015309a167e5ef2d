#include "ptc/cost/step/training.h"

#include <gtest/gtest.h>

#include <string>

#include "ptc/base/status.h"

namespace scalai::step {
namespace {

TEST(Precision, AreFoundByName) {
  ASSERT_EQ(precision_names(), (std::vector<std::string>{"bf16", "fp16", "zero-fp16", "fp32", "fp8", "nvfp4"}));
  const double together[] = {18, 20, 16, 16, 18, 18};
  for (size_t i = 0; i < precision_names().size(); ++i) {
    const Precision found = find_precision(precision_names()[i]).value();
    EXPECT_EQ(found.name, precision_names()[i]);
    EXPECT_EQ(found.param_bytes + found.gradient_bytes + found.optimizer_bytes, together[i]) << found.name;
  }
  EXPECT_EQ(find_precision("fp32").value().activation_bytes, 4);
  EXPECT_EQ(find_precision("bf16", model::Optimizer::kSgdMomentum).value().optimizer_bytes, 8);
  const absl::Status unknown = find_precision("bf61").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(message_of(unknown).find("\"bf61\""), std::string::npos);
  EXPECT_NE(message_of(unknown).find("bf16, fp16, zero-fp16, fp32, fp8"), std::string::npos);
}

TEST(Names, AreReadBack) {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kTwoBW}) {
    EXPECT_EQ(find_schedule(name_of(schedule)).value(), schedule);
  }
  EXPECT_EQ(name_of(Schedule::kTwoBW), "2bw");
  EXPECT_NE(message_of(find_schedule("zb").status()).find("gpipe, 1f1b, 2bw"), std::string::npos);
}

TEST(Names, OfDataOverlapAndGradientsAreReadBack) {
  for (const DataOverlap overlap : {DataOverlap::kNone, DataOverlap::kGradients, DataOverlap::kAll})
    EXPECT_EQ(find_data_overlap(name_of(overlap)).value(), overlap);
  EXPECT_NE(message_of(find_data_overlap("some").status()).find("none, gradients, all"), std::string::npos);
  for (const Kernels kernels : {Kernels::kEager, Kernels::kFused, Kernels::kTuned, Kernels::kEarly})
    EXPECT_EQ(find_kernels(name_of(kernels)).value(), kernels);
  for (const Framework framework :
       {Framework::kMegatron, Framework::kDeepSpeed, Framework::kScaling, Framework::kInternEvo})
    EXPECT_EQ(find_framework(name_of(framework)).value(), framework);
  EXPECT_NE(message_of(find_framework("jax").status()).find("megatron, deepspeed, scaling"), std::string::npos);
  for (const Dispatch dispatch : {Dispatch::kAllToAll, Dispatch::kOnce})
    EXPECT_EQ(find_dispatch(name_of(dispatch)).value(), dispatch);
  EXPECT_NE(message_of(find_dispatch("twice").status()).find("all-to-all, once"), std::string::npos);
  for (const Loss loss : {Loss::kSeparate, Loss::kCompiled, Loss::kFused})
    EXPECT_EQ(find_loss(name_of(loss)).value(), loss);
  EXPECT_NE(message_of(find_loss("mean").status()).find("separate, compiled, fused"), std::string::npos);
  EXPECT_EQ(find_gradient_bytes("fp32").value(), 4);
  EXPECT_EQ(find_gradient_bytes("bf16").value(), 2);
  EXPECT_NE(message_of(find_gradient_bytes("fp8").status()).find("fp32, bf16, fp16"), std::string::npos);
}

TEST(Training, FrameworksSumGradientsInTheirWays) {
  Training training;
  EXPECT_EQ(training.runs_in(), Framework::kMegatron);
  EXPECT_FALSE(training.sums_whole_gradients());
  EXPECT_EQ(training.summed_gradient_bytes(), 4);
  training.precision.gradient_bytes = 2;
  EXPECT_EQ(training.summed_gradient_bytes(), 2);
  training.framework = Framework::kScaling;
  EXPECT_TRUE(training.sums_whole_gradients());
  EXPECT_EQ(training.summed_gradient_bytes(), 4);
  training.framework = Framework::kDeepSpeed;  // bf16
  EXPECT_TRUE(training.sums_whole_gradients());
  EXPECT_EQ(training.summed_gradient_bytes(), 2);
  training.precision = find_precision("zero-fp16").value();
  training.framework = Framework::kMegatron;
  EXPECT_EQ(training.runs_in(), Framework::kDeepSpeed);
  EXPECT_FALSE(training.sums_whole_gradients());
}

TEST(Training, MicroBatchesRoundUp) {
  EXPECT_EQ((Training{.global_batch = 48, .micro_batch = 2}.micro_batches(3)), 8);
  EXPECT_EQ((Training{.global_batch = 49, .micro_batch = 2}.micro_batches(3)), 9);
  EXPECT_EQ((Training{.global_batch = 1, .micro_batch = 2}.micro_batches(3)), 1);
}

}  // namespace
}  // namespace scalai::step
