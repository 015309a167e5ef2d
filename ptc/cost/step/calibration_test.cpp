#include "ptc/cost/step/calibration.h"

#include <gtest/gtest.h>

#include "ptc/cluster/catalogue.h"

namespace scalai::step {
namespace calibration_test {

// Which numbers they are is checked where the published tables are (labs/validation/model/validation_test.cpp).
TEST(StepAccuracy, IsByGenerationProductsAndExperts) {
  EXPECT_EQ(step_accuracy("a100-40g", Math::kBF16, false).group, "dense A100 16-bit");
  EXPECT_EQ(step_accuracy("h100-80g", Math::kBF16, false).group, "dense H100 16-bit");
  EXPECT_EQ(step_accuracy("h100-80g", Math::kFP8, false).group, "dense H100 FP8");
  EXPECT_EQ(step_accuracy("gb300-279g", Math::kFP8, false).group, "dense Blackwell");
  EXPECT_EQ(step_accuracy("h100-80g", Math::kFP8, true).group, "experts");
  for (const char* gpu : {"v100-32g", "h200-141g", "mi300x-192g", "my own", ""}) {
    EXPECT_FALSE(step_accuracy(gpu, Math::kBF16, false).calibrated) << gpu;
    EXPECT_FALSE(step_accuracy(gpu, Math::kBF16, true).calibrated) << gpu;
  }
}

TEST(StepAccuracy, IsNotThatOfAKindWithOtherRates) {
  cluster::GpuKind gpu = *cluster::find_gpu_kind("h100-80g");
  EXPECT_TRUE(step_accuracy(gpu, Math::kBF16, false).calibrated);
  gpu.memory_bytes /= 2;
  EXPECT_TRUE(step_accuracy(gpu, Math::kBF16, false).calibrated) << "less memory makes no other step";
  gpu.matrix_efficiency = 0.2;
  EXPECT_FALSE(step_accuracy(gpu, Math::kBF16, false).calibrated);
  EXPECT_EQ(step_accuracy(gpu, Math::kBF16, false).group, "other GPUs");
}

TEST(StepAccuracy, IsThatOfWhatIsGiven) {
  const auto width = [](Given given) {
    const StepAccuracy known = step_accuracy("a100-40g", Math::kBF16, false, given);
    EXPECT_EQ(known.given, given);
    return known.high / known.low;
  };
  EXPECT_LT(width(Given::kFlags), width(Given::kSoftware));
  EXPECT_LT(width(Given::kSoftware), width(Given::kNothing));
}

TEST(StepAccuracy, IsSaid) {
  const StepAccuracy known{"dense A100 16-bit", true, 291, 0.95, 1.35}, unknown{"other GPUs", false, 30, 0.5, 2};
  EXPECT_EQ(text_of(known, "a100-40g"),
            "nine in ten of 291 published steps (dense A100 16-bit) took 0.95 to 1.35 times as long");
  StepAccuracy guessed = known;
  guessed.given = Given::kNothing;
  EXPECT_EQ(text_of(guessed, "a100-40g"),
            "nine in ten of 291 published steps (dense A100 16-bit), of any software, took 0.95 to 1.35 times as long");
  EXPECT_EQ(text_of(unknown, "v100-32g"),
            "step times are not calibrated for v100-32g: it may take 0.50 to 2.00 times as long");
}

}  // namespace calibration_test
}  // namespace scalai::step
