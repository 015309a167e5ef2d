#include "tests/chaos/training.h"

#include <gtest/gtest.h>

#include "ptc/base/file.h"
#include "ptc/store/safetensors/testing/test_job.h"

namespace scalai::chaos {
namespace {

class TrainingTest : public store::FolderTest {
 protected:
  std::string judged(const std::string& found) const {
    EXPECT_TRUE(write_file(path("static.csv"), "0,4.5,0.1,1\n1,4.25,0.1,1\n").ok());
    EXPECT_TRUE(write_file(path("loss.csv"), found).ok());
    return judge_losses(path("static.csv"), path("loss.csv"));
  }
};

TEST_F(TrainingTest, EveryStepHasItsLoss) {
  EXPECT_EQ(judged("0,4.5,1,2\n1,4.25000001,1,4\n"), "");
  EXPECT_EQ(judged("0,4.5,1,2\n1,7,1,4\n1,4.25,1,4\n"), "") << "a step that was trained twice: the second counts";
  EXPECT_EQ(judged("0,4.5,1,2\n"), "step 1 was never trained");
  EXPECT_EQ(judged("0,4.5,1,2\n1,4.26,1,4\n"), "step 1 has a loss of 4.26, and 4.25 where nothing happens");
  EXPECT_EQ(judged("0,nan,1,2\n1,4.25,1,4\n"), "step 0 was never trained");
}

TEST_F(TrainingTest, WithoutPyTorchThereIsNone) {
  const Setting setting{.bin = "/nowhere",
                        .nccl = {},
                        .clock = {},
                        .certificate = {},
                        .key = {},
                        .state = {},
                        .python = "/bin/false",
                        .training = path("training")};
  EXPECT_TRUE(absl::IsNotFound(make_training(setting)));
}

}  // namespace
}  // namespace scalai::chaos
