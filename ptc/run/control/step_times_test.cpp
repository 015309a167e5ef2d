#include "ptc/run/control/internal/step_times.h"

#include <gtest/gtest.h>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using testing::device_ids;
using testing::job_text;
using testing::Parts;
using testing::sized_job;

// A step takes a second for each job that trains at the same time.
class Counting : public step::StepTimeModel {
 public:
  std::vector<double> steps_s(std::span<const step::StepInput> together) const override {
    ++asked;
    return std::vector<double>(together.size(), static_cast<double>(together.size()));
  }
  mutable int asked = 0;
};

const std::string kFree = "gpus: 2 configs { layout: \"dp2\" } ";

class StepTimesTest : public ::testing::Test {
 protected:
  Parts parts_{"until: \"100s\"\n" + job_text("a", kFree) + job_text("b", kFree) + sized_job("c")};
  const Counting model_ = {};
  StepTimes times_{parts_.condition, parts_.jobs, model_};
};

TEST_F(StepTimesTest, AsksForAllThatTrainTogether) {
  const Job& a = parts_.train(0, 0, {0, 1});
  times_.update();
  EXPECT_EQ(times_.of(a), 1);
  const Job& b = parts_.train(1, 0, {2, 3});
  times_.update();
  EXPECT_EQ(times_.of(a), 2);
  EXPECT_EQ(times_.of(b), 2);
  EXPECT_EQ(model_.asked, 2);
}

TEST_F(StepTimesTest, AsksAgainOnlyAfterAChange) {
  Job& a = parts_.train(0, 0, {0, 1});
  for (int i = 0; i < 3; ++i) times_.update();
  EXPECT_EQ(model_.asked, 1);
  parts_.condition.degrade({.links = {}, .devices = device_ids({7}), .factor = 0.5});
  times_.update();
  EXPECT_EQ(model_.asked, 2) << "the condition";
  a.mode = Mode::kReconfiguring;
  times_.update();
  EXPECT_EQ(model_.asked, 2) << "nobody trains";
  a.mode = Mode::kStopping;
  times_.update();
  EXPECT_EQ(model_.asked, 3) << "it trains until it has stopped";
}

TEST_F(StepTimesTest, AGivenTimeIsStretchedByTheSlowestDevice) {
  const Job& c = parts_.train(2, 1, {4, 5});
  times_.update();
  EXPECT_EQ(times_.of(c), 2);
  parts_.condition.degrade({.links = {}, .devices = device_ids({5}), .factor = 0.25});
  parts_.condition.degrade({.links = {"h0.nic0.up"}, .devices = device_ids({4}), .factor = 0.5});
  times_.update();
  EXPECT_EQ(times_.of(c), 8);
  EXPECT_EQ(model_.asked, 0);
}

}  // namespace
}  // namespace scalai::control
