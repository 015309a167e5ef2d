#include "ptc/report/internal/intervals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/calibration.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace intervals_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A job that is done after 200 s: 160 s of steps on two GPUs of the first host, of which 20 s count twice; two changes
// with 6 s of transfers and 4 s of communicators in all; 3 s for a restart.
class Intervals : public ::testing::Test {
 protected:
  Intervals() {
    for (cluster::Host& host : scenario_.cluster.hosts) host.gpu = *cluster::find_gpu_kind("a100-40g");
    for (scenario::JobSpec& job : scenario_.jobs) job.given = step::Given::kFlags;
    report_ = testing::example_report(scenario_);
    control::JobRecord& job = report_.jobs[0];
    job.state = "complete";
    job.wall_s = 200;
    job.training_s = 160;
    job.downtime_s = 60;
    job.downtime = {.reconfigurations_s = 40, .run_again_s = 20};
    job.configurations = {{.since_s = 0, .layout = "dp2"}};
    job.reconfigurations[0].phases = {.restart = 3, .transfer = 2, .resume = 4};
    job.reconfigurations[1].phases = {.transfer = 4};
    report_.spans = {{0, "train", 0, 80, {DeviceId(0), DeviceId(1)}},
                     {0, "transfer", 80, 86, {}},
                     {0, "train", 86, 166, {DeviceId(0), DeviceId(1)}}};
  }

  static std::vector<Basis> basis(double transfer_low, double transfer_high) {
    return {{"step", "modelled", "", 0, 0, "times"},  // of all jobs: the interval of this one counts
            {"restart", "assumed", "stack", 10, 1380, "s"},
            {"transfer", "modelled", "", transfer_low, transfer_high, "times"},
            {"resume", "modelled", "", 0.5, 2.25, "times"}};
  }

  scenario::Scenario scenario_ = testing::example_scenario();
  control::RunReport report_;
};

// Both transfers are off alike: 0.5 (2 + 4) = 3 s above. Communicators: 1.25 · 4 = 5 s, steps: 0.18 · 160 = 28.8 s.
TEST_F(Intervals, ErrorsOfAKindAddUpAndKindsAreIndependent) {
  const auto a100 = step::step_accuracy("a100-40g", step::Math::kBF16, false);
  ASSERT_EQ(a100.high, 1.18);
  ASSERT_EQ(a100.low, 0.89);
  const JobIntervals found = *intervals_of(report_, basis(0.75, 1.5), 0);
  EXPECT_NEAR(found.wall_s->high, 200 + std::sqrt(28.8 * 28.8 + 3 * 3 + 5 * 5), 1e-9);
  EXPECT_NEAR(found.wall_s->low, 200 - std::sqrt(17.6 * 17.6 + 1.5 * 1.5 + 2 * 2), 1e-9);
  EXPECT_NEAR(found.downtime_s.high, 60 + std::sqrt(3.6 * 3.6 + 3 * 3 + 5 * 5), 1e-9)
      << "of its steps those done again";
  EXPECT_NEAR(found.downtime_s.low, 60 - std::sqrt(2.2 * 2.2 + 1.5 * 1.5 + 2 * 2), 1e-9);
  EXPECT_EQ(found.without, "restart") << "nobody knows how far the assumption is off";
}

// One change resumes, in 4 s of which 3 are given.
TEST_F(Intervals, WhatIsGivenWithinAPhaseHasNone) {
  report_.jobs[0].configurations.clear();
  std::vector<Basis> lines = basis(1, 1);
  lines.back().given_s = 3;
  EXPECT_NEAR(intervals_of(report_, lines, 0)->downtime_s.high, 60 + 1.25 * 1, 1e-9);
}

// A model that is always too fast is off to one side only.
TEST_F(Intervals, AnIntervalBesideTheValueHasOneSide) {
  report_.jobs[0].configurations.clear();
  report_.jobs[0].reconfigurations[0].phases.resume = 0;
  const JobIntervals found = *intervals_of(report_, basis(1.25, 1.5), 0);
  EXPECT_EQ(found.downtime_s.low, 60);
  EXPECT_EQ(found.downtime_s.high, 63);
}

TEST_F(Intervals, WhatIsGivenOrMeasuredHasNone) {
  for (const char* known : {"given", "measured"}) {
    std::vector<Basis> lines = basis(0.75, 1.5);
    for (Basis& line : lines) line.basis = known;
    EXPECT_FALSE(intervals_of(report_, lines, 0)) << known;
  }
  report_.jobs[0].configurations[0].computed = false;
  const JobIntervals found = *intervals_of(report_, basis(0.75, 1.5), 0);
  EXPECT_NEAR(found.wall_s->high, 200 + std::sqrt(3 * 3 + 5 * 5), 1e-9);
}

// Half of the steps have times of the scenario: from 86 s on.
TEST_F(Intervals, OnlyComputedStepsCount) {
  report_.jobs[0].configurations.push_back({.since_s = 86, .layout = "dp2", .computed = false});
  const JobIntervals found = *intervals_of(report_, basis(1, 1), 0);
  EXPECT_NEAR(found.wall_s->high, 200 + std::sqrt(14.4 * 14.4 + 5 * 5), 1e-9);
}

// 80 s on A100, 80 s on V100, whose steps are not calibrated. On both at once the wider interval counts.
TEST_F(Intervals, KindsOfGpusAreIndependent) {
  scenario_.cluster.hosts[1].gpu.name = "v100-32g";
  report_.spans[2].devices = {DeviceId(2), DeviceId(3)};
  const double other = step::step_accuracy("", step::Math::kBF16, false).high - 1;
  EXPECT_NEAR(intervals_of(report_, basis(1, 1), 0)->wall_s->high,
              200 + std::sqrt(14.4 * 14.4 + 80 * other * 80 * other + 5 * 5), 1e-9);
  report_.spans[2].devices = {DeviceId(0), DeviceId(2)};
  EXPECT_NEAR(intervals_of(report_, basis(1, 1), 0)->wall_s->high,
              200 + std::sqrt(14.4 * 14.4 + 80 * other * 80 * other + 5 * 5), 1e-9);
}

// The end of the run ends the wall time of a job that still trains.
TEST_F(Intervals, OfAJobThatIsNotDoneOnlyTheDowntime) {
  report_.jobs[0].state = "running";
  const JobIntervals found = *intervals_of(report_, basis(0.75, 1.5), 0);
  EXPECT_FALSE(found.wall_s);
  EXPECT_GT(found.downtime_s.high, 60);
  EXPECT_FALSE(intervals_of(report_, basis(0.75, 1.5), 1)) << "it only waits";
}

TEST_F(Intervals, AreInSummaryTableAndComparison) {
  for (cluster::Host& host : scenario_.cluster.hosts) host.copy_bytes_per_s = 1e9;
  report_.strategy = "tenplex";  // restarts by its stack
  const std::string json = summary_json(report_);
  const Summary summary = *read_summary(json);
  ASSERT_TRUE(summary.jobs[0].interval);
  const double high = summary.jobs[0].interval->wall_s->high;
  EXPECT_NEAR(high, 200 + std::sqrt(28.8 * 28.8 + 0.63 * 6 * 0.63 * 6 + 3 * 4 * 3 * 4), 1e-9);
  EXPECT_FALSE(summary.jobs[1].interval);
  EXPECT_THAT(summary_table(json), ContainsRegex("200 s ± 31.4 s"));
  EXPECT_THAT(summary_table(json), HasSubstr("without restart"));
  const auto compared = [&](const char* format) { return *compare_summaries({{"a", json}, {"b", json}}, format); };
  EXPECT_THAT(compared("table"), ContainsRegex("wall +200 s ± 31.4 s +200 s ± 31.4 s"));
  EXPECT_THAT(compared("json"), ContainsRegex("\"model_high\": \\[\n +231.4"));
  EXPECT_THAT(compared("csv"), HasSubstr("a,a_model_low,a_model_high,b,b_model_low,b_model_high,ratio\n"));
}

}  // namespace intervals_test
}  // namespace scalai::report
