// How long steps take while several jobs train, devices are slow and links are down.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ptc/cluster/catalogue.h"
#include "ptc/run/control/internal/trainer.h"
#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using testing::all_of;
using testing::Driver;
using testing::job_text;

// A step takes a second for each job that trains; twice that on a link at half its rate, for ever without it.
class Crowded : public step::StepTimeModel {
 public:
  std::vector<double> steps_s(std::span<const step::StepInput> together) const override {
    ++asked;
    std::vector<double> seconds;
    for (const step::StepInput& job : together) {
      double one = static_cast<double>(together.size());
      for (const auto& [link, share] : job.links)
        one = share == 0 ? std::numeric_limits<double>::infinity() : one / share;
      for (const DeviceId device : job.devices) {
        const auto slow = job.speed.find(device);
        if (slow != job.speed.end()) one = std::max(one, static_cast<double>(together.size()) / slow->second);
      }
      seconds.push_back(one);
    }
    return seconds;
  }
  mutable int asked = 0;
};

constexpr const char* kTwo = R"(gpus: 2 configs { layout: "dp2" } configs { layout: "dp1" } )";

std::string two_jobs(const std::string& second = "", const std::string& events = "") {
  return "until: \"1000s\"\n" + job_text("a", kTwo) + job_text("b", kTwo + second) + events;
}

TEST(TrainingOfJobs, JobsThatStartTogetherSlowEachOtherFromTheFirstStep) {
  const Crowded crowded;
  Driver driver(two_jobs(), "reshard", false, &crowded);
  const std::vector<Train> trains = all_of<Train>(driver.feed(1, UserResize{0, 2}));
  EXPECT_TRUE(trains.empty()) << driver.text();
  EXPECT_EQ(crowded.asked, 1) << "nothing has changed since";
  EXPECT_EQ(driver.job(0).configurations.at(0).step_s, 2);
  EXPECT_EQ(driver.job(1).configurations.at(0).step_s, 2);
}

TEST(TrainingOfJobs, WhoIsLeftGoesOnFasterAtItsNextBoundary) {
  const Crowded crowded;
  Driver driver(two_jobs("steps: 5"), "reshard", false, &crowded);
  driver.feed(3, UserResize{0, 2});
  driver.feed(10, StepReached{1, 5});  // "b" is complete; "a" is at a boundary, too
  EXPECT_EQ(driver.only<Train>().until_step, 5);
  EXPECT_EQ(driver.only<Train>().step_s, 2) << "the step under way ends as it began";
  driver.feed(10, StepReached{0, 5});
  const Train train = driver.only<Train>();
  EXPECT_EQ(train.start_s, 10);
  EXPECT_EQ(train.from_step, 5);
  EXPECT_EQ(train.step_s, 1);
  EXPECT_TRUE(driver.feed(20, UserResize{0, 2}).empty()) << "and that is all: " << driver.text();
  const std::vector<ConfigurationRecord> rates = driver.job(0).configurations;
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].since_s, 0);
  EXPECT_EQ(rates[1].since_s, 10);
  EXPECT_EQ(rates[1].step_s, 1);
  EXPECT_EQ(driver.log(), driver.log_again());
}

TEST(TrainingOfJobs, AJobThatReconfiguresDoesNotCountMeanwhile) {
  const Crowded crowded;
  Driver driver(two_jobs(), "reshard", false, &crowded);
  driver.feed(2.5, UserResize{1, 1});
  EXPECT_EQ(driver.only<Train>().job, 1);
  driver.feed(4, StepReached{1, 2});
  driver.only<Execute>();
  EXPECT_EQ(driver.only<Train>().job, 0);
  EXPECT_EQ(driver.only<Train>().until_step, 2);
  driver.feed(4, StepReached{0, 2});
  EXPECT_EQ(driver.only<Train>().step_s, 1);
  driver.done(9.5, 5, 1);
  const std::vector<Train> trains = all_of<Train>(driver.feed(9.5, UserResize{0, 2}));
  EXPECT_TRUE(trains.empty());
  driver.feed(10, StepReached{0, 8});
  EXPECT_EQ(driver.only<Train>().step_s, 2);
  EXPECT_EQ(driver.only<Train>().from_step, 8);
  EXPECT_EQ(driver.job(1).configurations.back().step_s, 2);
  EXPECT_EQ(driver.log(), driver.log_again());
}

// Both change together at one instant, again and again: each change costs each job one stop at most.
TEST(TrainingOfJobs, TwoJobsAtTheSameInstantDoNotChaseEachOther) {
  const Crowded crowded;
  Driver driver(two_jobs("steps: 50"), "reshard", false, &crowded);
  driver.feed(4, UserResize{0, 1});
  driver.feed(4, UserResize{1, 1});
  driver.feed(4, StepReached{0, 2});
  driver.feed(4, StepReached{1, 2});
  driver.done(8, 4, 0);
  driver.done(8, 4, 1);
  const std::vector<std::string> lines = driver.log();
  for (int i = 0; i < 5; ++i) driver.feed(8, UserResize{i % 2, 1});
  EXPECT_EQ(driver.log(), lines) << driver.text();
  for (const int job : {0, 1}) EXPECT_EQ(driver.job(job).configurations.back().step_s, 2);
  EXPECT_EQ(driver.log(), driver.log_again());
}

TEST(TrainingOfJobs, AGivenStepTimeIsOnlyStretchedBySlowDevices) {
  const Crowded crowded;
  Driver driver("until: \"1000s\"\n" + job_text("a", "gpus: 2 configs { layout: \"dp2\" step_time: \"3s\" }") +
                    job_text("b", kTwo) + "events { at: \"10s\" degrade { devices: [0] factor: 0.5 } }",
                "reshard", false, &crowded);
  EXPECT_EQ(all_of<Train>(driver.feed(1, UserResize{0, 2})).size(), 0u);
  driver.feed(10, TimerFired{1});
  EXPECT_EQ(driver.only<Train>().job, 0);
  driver.feed(12, StepReached{0, 4});
  EXPECT_EQ(driver.only<Train>().step_s, 6);
  EXPECT_FALSE(driver.job(0).configurations.at(0).computed);
  EXPECT_TRUE(driver.job(1).configurations.at(0).computed);
}

TEST(TrainingOfJobs, AJobWithoutItsLinkStandsStillUntilItIsBack) {
  const Crowded crowded;
  Driver driver("until: \"1000s\"\n" + job_text("a", kTwo) +
                    "events { at: \"10.5s\" fail { links: [\"h0.nic0.up\"] leave: false } }\n"
                    "events { at: \"60.25s\" repair { links: [\"h0.nic0.up\"] } }\n",
                "reshard", false, &crowded);
  driver.feed(10.5, TimerFired{1});
  EXPECT_EQ(driver.only<Train>().until_step, 11);
  driver.feed(11, StepReached{0, 11});
  EXPECT_TRUE(std::isinf(driver.only<Train>().step_s));
  EXPECT_EQ(driver.job().training_s, 11);
  EXPECT_FALSE(driver.job().configurations.back().step_s.has_value());
  EXPECT_EQ(driver.job().state, "stalled");
  EXPECT_EQ(driver.job().failure, "a link that it needs is down");
  driver.feed(60.25, TimerFired{2});
  EXPECT_EQ(driver.only<Train>().start_s, 60.25);
  EXPECT_EQ(driver.only<Train>().step_s, 1);
  EXPECT_EQ(driver.only<Train>().from_step, 11);
  EXPECT_EQ(driver.job().training_s, 11);
  EXPECT_EQ(driver.job().state, "running");
}

// What stands still need not be waited for.
TEST(TrainingOfJobs, AJobThatStandsStillLeavesAtOnce) {
  const Crowded crowded;
  Driver driver("until: \"1000s\"\n" + job_text("a", kTwo) +
                    "events { at: \"10s\" fail { links: [\"h0.nic0.up\"] leave: false } }\n",
                "reshard", false, &crowded);
  driver.feed(10, TimerFired{1});
  driver.feed(10, StepReached{0, 10});
  driver.feed(30, UserResize{0, 1});
  const Train train = driver.only<Train>();
  EXPECT_EQ(train.start_s, 30);
  EXPECT_EQ(train.until_step, 10);
  EXPECT_EQ(train.step_s, 0);
  driver.feed(30, StepReached{0, 10});
  driver.only<Execute>();
  EXPECT_EQ(driver.job().steps, 10);
}

TEST(TrainingOfJobs, ARepairedSlowDeviceIsFastAgain) {
  const Crowded crowded;
  Driver driver("until: \"1000s\"\n" + job_text("a", kTwo) +
                    "events { at: \"10s\" degrade { devices: [1] factor: 0.5 } }\n"
                    "events { at: \"21s\" degrade { devices: [1] factor: 1 } }\n",
                "reshard", false, &crowded);
  driver.feed(10, TimerFired{1});
  driver.feed(10, StepReached{0, 10});
  EXPECT_EQ(driver.only<Train>().step_s, 2);
  driver.feed(21, TimerFired{2});
  EXPECT_EQ(driver.only<Train>().until_step, 16);
  driver.feed(22, StepReached{0, 16});
  EXPECT_EQ(driver.only<Train>().step_s, 1);
}

TEST(TrainingOfJobs, ALinkThatIsDownIsNotBroughtBackByDegradingIt) {
  const Crowded crowded;
  Driver driver("until: \"1000s\"\n" + job_text("a", kTwo) +
                    "events { at: \"10s\" fail { links: [\"h0.nic0.up\"] leave: false } }\n"
                    "events { at: \"20s\" degrade { links: [\"h0.nic0.up\", \"h1.nic0.up\"] factor: 0.5 } }\n",
                "reshard", false, &crowded);
  driver.feed(10, TimerFired{1});
  driver.feed(10, StepReached{0, 10});
  driver.feed(20, TimerFired{2});
  EXPECT_EQ(std::get<scenario::Degrade>(driver.only<Inject>().what).links, std::vector<std::string>{"h1.nic0.up"});
  EXPECT_TRUE(driver.none<Train>()) << driver.text();
}

// Two changes at one instant: what lasted no time is not in the list.
TEST(TrainingOfJobs, AStretchOfNoLengthIsNoEntry) {
  const Crowded crowded;
  Driver driver("until: \"1000s\"\n" + job_text("a", kTwo) +
                    "events { at: \"0s\" degrade { devices: [1] factor: 0.5 } }\n"
                    "events { at: \"10s\" degrade { devices: [1] factor: 0.25 } }\n"
                    "events { at: \"10s\" degrade { devices: [1] factor: 0.5 } }\n",
                "reshard", false, &crowded);
  driver.feed(0, TimerFired{1});
  ASSERT_EQ(driver.job().configurations.size(), 1u);
  EXPECT_EQ(driver.job().configurations[0].step_s, 2);
  driver.feed(10, StepReached{0, 5});
  driver.feed(10, TimerFired{2});
  driver.feed(10, TimerFired{3});
  EXPECT_EQ(driver.job().configurations.size(), 1u);
}

TEST(TrainingOfJobs, UtilisationIsOfThePeakOfThePrecision) {
  const auto mfu = [](const std::string& precision) {
    Driver driver("until: \"1000s\"\n" + job_text("a", std::string(kTwo) + ("precision: \"" + precision + "\"")));
    const ConfigurationRecord record = driver.job().configurations.at(0);
    return *record.mfu * *record.step_s;
  };
  const cluster::GpuKind& gpu = *cluster::find_gpu_kind("a6000-48g");
  EXPECT_NEAR(mfu("fp32") / mfu("bf16"),
              step::peak_flops(gpu, step::Math::kBF16) / step::peak_flops(gpu, step::find_precision("fp32")->math),
              1e-9);
}

// ---- the trainer by itself ------------------------------------------------------------------------------------------

struct Trains : testing::Parts {
  explicit Trains(const std::string& more, bool reads_samples = false)
      : Parts("until: \"1000s\"\n" + testing::sized_job("a", more), reads_samples), script(scenario) {}
  const Crowded model;
  Script script;
  Trainer trainer{condition, script, jobs, model, turn};
};

TEST(Trainer, StopsWhereSomethingIsDue) {
  const auto until = [](const std::string& more, int64_t from) {
    Trains parts(more);
    parts.trainer.start(parts.train(0, 1, {0, 1}, from));
    return parts.all<Train>().at(0).until_step;
  };
  EXPECT_GT(until("", 0), 1'000'000'000) << "nothing is";
  EXPECT_EQ(until("steps: 70", 0), 70);
  EXPECT_EQ(until("steps: 70 checkpoint { every_steps: 20 }", 0), 20);
  EXPECT_EQ(until("steps: 70 checkpoint { every_steps: 20 }", 20), 40);
  EXPECT_EQ(until("steps: 70 redundancy { copies: 1 every_steps: 15 }", 20), 30);
  EXPECT_EQ(until("steps: 70", 3), 70);
}

TEST(Trainer, CreditsWholeStepsAndHasTheirSamplesRead) {
  Trains parts("dataset { samples: 100 }", /*reads_samples=*/true);
  Job& job = parts.train(0, 1, {0, 1}, 5);
  job.ledger->done(5, 1);
  job.training = {.start_s = 10, .from_step = 5, .until_step = 50, .step_s = 2};
  parts.turn.now_s = 17;
  parts.trainer.credit(job, 8, parts.turn.now_s);
  EXPECT_EQ(job.state.step, 8);
  EXPECT_EQ(job.accounts.record.training_s, 6);
  EXPECT_EQ(job.training.start_s, 17);
  ASSERT_EQ(parts.all<Read>().size(), 1u);
  EXPECT_EQ(parts.all<Read>()[0].from_step, 5);
  EXPECT_EQ(parts.all<Read>()[0].until_step, 8);
  parts.trainer.credit(job, 8, parts.turn.now_s);
  EXPECT_EQ(parts.all<Read>().size(), 1u) << "no step more";
}

TEST(Trainer, AStepThatStandsStillIsGivenUp) {
  Trains parts("");
  Job& job = parts.train(0, 1, {0, 1});
  job.training = {.start_s = 0, .from_step = 3, .until_step = 50, .step_s = std::numeric_limits<double>::infinity()};
  parts.turn.now_s = 17;
  parts.trainer.stop_at_boundary(job);
  ASSERT_EQ(parts.all<Train>().size(), 1u);
  EXPECT_EQ(parts.all<Train>()[0].start_s, 17);
  EXPECT_EQ(parts.all<Train>()[0].until_step, 3);
  EXPECT_EQ(parts.all<Train>()[0].step_s, 0);
}

}  // namespace
}  // namespace scalai::control
