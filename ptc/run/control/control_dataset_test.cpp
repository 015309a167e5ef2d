// What the control loop does about a job's dataset: when it asks for samples to be read, and what it makes of the
// accounts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/control/control.h"
#include "ptc/run/control/testing/control_fixture.h"
#include "ptc/store/datasets/share.h"

namespace scalai::control {
namespace {

using testing::Driver;
using ::testing::HasSubstr;
using testing::job_text;

// 20 samples in batches of 8: three steps a pass, the last one of 4. Steps of 1 s on 4 GPUs, 2 s on 2.
std::string scenario(const std::string& job_more, const std::string& more = "") {
  return more + job_text("a",
                         "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2,dp1\" "
                         "step_time: \"2s\" } dataset { samples: 20 } " +
                             job_more);
}
constexpr const char* kUntil = "until: \"1000s\"\n";

class Reading : public ::testing::Test {
 protected:
  void start(const std::string& text) { driver_ = std::make_unique<Driver>(text, "reshard", /*reads_samples=*/true); }
  Driver& driver() { return *driver_; }
  // What honest workers answer.
  SamplesRead answer(const Read& read) {
    const datasets::State& state = driver_->scenario().jobs[static_cast<size_t>(read.job)].dataset->state;
    const datasets::Steps steps(state);
    const datasets::Order order(state.samples, state.shuffle, state.seed);
    SamplesRead done{.job = read.job, .from_step = read.from_step, .step = read.until_step};
    const int dp = read.collection->meshes.front().axis_size("dp");
    done.accounts.resize(static_cast<size_t>(dp));
    for (int64_t step = read.from_step; step < read.until_step; ++step) {
      for (int rank = 0; rank < dp; ++rank) {
        const datasets::PositionRange run = datasets::positions_of(steps, step, {.rank = rank, .dp = dp});
        const int64_t pass = steps.batch(step).pass;
        for (int64_t at = run.begin; at < run.end; ++at)
          done.accounts[static_cast<size_t>(rank)].add(pass, at, order.at(pass, at));
      }
    }
    return done;
  }
  void feed_step(double at_s, int64_t step) {
    driver_->feed(at_s, StepReached{0, step});
    read_ = driver_->only<Read>();
  }
  const DatasetRecord dataset() { return driver_->job().dataset.value(); }

  std::unique_ptr<Driver> driver_;
  Read read_;
};

TEST_F(Reading, AReachedStepIsReadByWhoeverTrainedIt) {
  start(kUntil + scenario("checkpoint { every_steps: 5 }"));
  EXPECT_TRUE(driver().none<Read>());
  feed_step(5, 5);
  EXPECT_EQ(read_.from_step, 0);
  EXPECT_EQ(read_.until_step, 5);
  EXPECT_EQ(read_.collection->ranks(), 4);
  driver().feed(5, answer(read_));
  EXPECT_EQ(driver().text(), "");
  EXPECT_EQ(dataset().samples_read, 20 + 16);
  EXPECT_EQ(driver().job().samples, 20 + 16);
  feed_step(10, 10);
  EXPECT_EQ(read_.from_step, 5);
}

TEST_F(Reading, TheRunEndsWhenAllIsRead) {
  start(scenario("steps: 7"));
  feed_step(7, 7);
  EXPECT_TRUE(driver().none<Stop>());
  EXPECT_TRUE(driver().feed(7, UserResize{0, 2}).empty()) << "the run is over but for what is to be read";
  EXPECT_EQ(driver().job().state, "failed");
  EXPECT_EQ(driver().job().failure, "the samples of steps 0 to 6 were never read");
  driver().feed(7, answer(read_));
  driver().only<Stop>();
  EXPECT_EQ(driver().job().state, "complete");
  EXPECT_EQ(driver().job().samples, 20 + 20 + 8);
  EXPECT_EQ(dataset().exactly_once, true);
  EXPECT_EQ(dataset().samples_read, 48);
  EXPECT_EQ(dataset().pass, 2);
  EXPECT_EQ(dataset().consumed, 8);
}

TEST_F(Reading, TheEndOfTheScenarioReadsTheStepsDoneUntilThen) {
  start(kUntil + scenario("checkpoint { every_steps: 600 }"));
  feed_step(600, 600);
  driver().feed(600, answer(read_));
  driver().feed(1000, TimerFired{0});
  const Read last = driver().only<Read>();
  EXPECT_EQ(last.from_step, 600);
  EXPECT_GE(last.until_step, 999);
  EXPECT_TRUE(driver().none<Stop>());
  driver().feed(1000, answer(last));
  driver().only<Stop>();
  EXPECT_EQ(driver().job().state, "running");
  EXPECT_EQ(dataset().exactly_once, true);
  EXPECT_EQ(dataset().samples_read, driver().job().samples);
}

// Steps until the failure were done, so they were read, also where they are lost.
TEST_F(Reading, ARollbackReadsStepsAgainAndSaysSo) {
  start(scenario("steps: 20 checkpoint { every_steps: 5 }"));
  feed_step(5, 5);
  const int64_t tag = driver().only<Background>().tag;
  const double start_s = driver().only<Train>().start_s;  // it waits for the copy
  driver().feed(5, answer(read_));
  driver().feed(6, BackgroundDone{0, tag});
  driver().lose(start_s + 2.5, {0, 1, 2, 3});  // both replicas
  const Read lost = driver().only<Read>();
  EXPECT_EQ(lost.from_step, 5);
  EXPECT_EQ(lost.until_step, 7);
  EXPECT_EQ(driver().only<Execute>().step, 5);
  driver().feed(start_s + 8, answer(lost));
  EXPECT_EQ(dataset().steps_again, 0) << "not before the commit";
  driver().done(start_s + 20);
  EXPECT_EQ(dataset().steps_again, 2);
  EXPECT_EQ(dataset().samples_again, 4 + 8);  // the short batch of the second pass is among them
  EXPECT_EQ(dataset().exactly_once, true);
  feed_step(start_s + 40, 10);
  EXPECT_EQ(read_.from_step, 5);
  driver().feed(start_s + 40, answer(read_));
  EXPECT_EQ(dataset().exactly_once, true);
  EXPECT_EQ(dataset().samples_read, driver().job().samples + 12);
  EXPECT_EQ(driver().log(), driver().log_again());
}

TEST_F(Reading, AnotherDpReadsByTheNewShares) {
  start(kUntil +
        scenario("", "events { at: \"3.5s\" resize { gpus: 2 } } events { at: \"30s\" resize { gpus: 4 } }\n"));
  driver().feed(3.5, TimerFired{1});
  feed_step(4, 4);
  EXPECT_EQ(read_.collection->ranks(), 4);
  driver().feed(4, answer(read_));
  driver().done(10);
  driver().feed(30, TimerFired{2});
  feed_step(30, 14);
  EXPECT_EQ(read_.collection->ranks(), 2);
  const SamplesRead read = answer(read_);
  EXPECT_EQ(read.accounts.size(), 1u);
  driver().feed(30, read);
  EXPECT_EQ(dataset().exactly_once, true);
  EXPECT_EQ(dataset().steps_again, 0);
}

TEST_F(Reading, NobodyReadsInASimulation) {
  Driver driver(kUntil + scenario("checkpoint { every_steps: 5 }"));
  driver.feed(5, StepReached{0, 5});
  EXPECT_TRUE(driver.none<Read>());
  driver.feed(1000, TimerFired{0});
  driver.only<Stop>();
  const DatasetRecord dataset = driver.job().dataset.value();
  EXPECT_EQ(dataset.samples_read, std::nullopt);
  EXPECT_EQ(dataset.exactly_once, std::nullopt);
  EXPECT_EQ(driver.job().samples, driver.job().steps / 3 * 20 + driver.job().steps % 3 * 8);
}

TEST_F(Reading, AJobWithoutADatasetIsNotAskedTo) {
  start("until: \"10s\"\n" + job_text("a", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" }"));
  driver().feed(10, TimerFired{0});
  EXPECT_TRUE(driver().none<Read>());
  driver().only<Stop>();
  EXPECT_FALSE(driver().job().dataset.has_value());
}

// ---- what does not add up -------------------------------------------------------------------------------------------

TEST_F(Reading, AMissingSampleFailsTheJob) {
  start(kUntil + scenario("checkpoint { every_steps: 5 }"));
  feed_step(5, 5);
  SamplesRead read = answer(read_);
  read.accounts[1].samples -= 1;
  const int64_t tag = driver().only<Background>().tag;
  driver().feed(5, read);
  EXPECT_EQ(driver().only<Halt>().job, 0);
  EXPECT_EQ(driver().only<Forget>().snapshot, tag);
  driver().only<Stop>();
  EXPECT_EQ(driver().job().state, "failed");
  EXPECT_EQ(driver().job().failure,
            "samples were not read exactly once in steps 0 to 4 of 2 ranks: dp rank 1 read 17 samples, expected 18");
  EXPECT_EQ(driver().job().wall_s, 5);
  EXPECT_EQ(dataset().exactly_once, false);
}

TEST_F(Reading, AnAccountThatDoesNotFitEndsAReconfiguration) {
  start(kUntil + scenario("", "events { at: \"3.5s\" resize { gpus: 2 } }\n"));
  driver().feed(3.5, TimerFired{1});
  feed_step(4, 4);
  SamplesRead read = answer(read_);
  std::swap(read.accounts[0], read.accounts[1]);
  driver().feed(4, read);
  EXPECT_EQ(driver().only<Abort>().job, 0);
  driver().only<Stop>();
  EXPECT_EQ(driver().job().state, "failed");
  EXPECT_EQ(driver().job().reconfigurations.size(), 1u);
  EXPECT_FALSE(driver().reconfiguration(0).completed);
}

TEST_F(Reading, AnAccountThatDoesNotFitFailsACompleteJob) {
  start(scenario("steps: 7"));
  feed_step(7, 7);
  SamplesRead read = answer(read_);
  read.accounts[0].sum_high ^= 1;
  driver().feed(7, read);
  driver().only<Stop>();
  EXPECT_EQ(driver().job().state, "failed");
  EXPECT_THAT(driver().job().failure, HasSubstr("but others"));
}

TEST_F(Reading, OtherJobsGoOn) {
  start(kUntil + scenario("steps: 5 ") + job_text("b", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" }"));
  feed_step(5, 5);
  SamplesRead read = answer(read_);
  read.step = 4;
  driver().feed(5, read);
  EXPECT_TRUE(driver().none<Stop>());
  EXPECT_EQ(driver().job(0).state, "failed");
  EXPECT_EQ(driver().job(1).state, "running");
}

}  // namespace
}  // namespace scalai::control
