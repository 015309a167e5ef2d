#include "ptc/report/internal/moments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/report/internal/summary.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace moments_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Steps of 2 s and a checkpoint every 10 of them, which counts after 3 s. Host 1 fails at 50 s, 14 s after the step of
// the last checkpoint: six steps and 2 s of the seventh. The change takes 5 s, and the end of the run cuts 1 s off.
class Moments : public ::testing::Test {
 protected:
  Moments() {
    scenario_.events = {{scenario::AtTime{50}, scenario::Fail{.devices = {DeviceId(2), DeviceId(3)}, .links = {}}}};
    scenario_.jobs[0].checkpoint.every_steps = 10;
    report_ = testing::example_report(scenario_);
    report_.script = {{.event = 0, .at_s = 50}};
    job().downtime = {.reconfigurations_s = 5, .run_again_s = 12, .cut_off_s = 3};
    job().downtime_s = 20;
    job().configurations = {{.since_s = 0, .layout = "dp2", .step_s = 2}};
    job().reconfigurations.erase(job().reconfigurations.begin());
    control::ReconfigurationRecord& change = job().reconfigurations[0];
    change.index = 1;
    change.rolled_back_steps = 6;
    change.completed = true;
    change.aborted_attempts = 0;
    change.resumed_s = 55;
    change.failed = {.step_s = 2, .cut_off_s = 2, .every_steps = 10, .written_s = 3};
  }
  control::JobRecord& job() { return report_.jobs[0]; }

  scenario::Scenario scenario_ = testing::example_scenario();
  control::RunReport report_;
};

// What is lost lies in [3, 23) s: 5 + 3 + 20 / 2 = 18 s are expected.
TEST_F(Moments, TheWorkThatIsLostIsUniformBetweenCopies) {
  const MomentSummary found = moments_of(report_, 0).value();
  EXPECT_EQ(found.interval_s, 20);
  EXPECT_EQ(found.lost_s, 14);
  EXPECT_EQ(found.expected_s, 18);
  EXPECT_EQ(found.low_s, 8);
  EXPECT_EQ(found.high_s, 28);
  EXPECT_EQ(found.moved_runs, 0);
  EXPECT_FALSE(moves_to_play(report_).has_value());
  EXPECT_FALSE(moments_of(report_, 1).has_value()) << "it only waits";
}

// Of copies that take 45 s each third one is made: due at 20 and 40 s, one is still being written.
TEST_F(Moments, CopiesThatAreLeftOutLieFurtherApart) {
  job().reconfigurations[0].failed->written_s = 45;
  EXPECT_EQ(moments_of(report_, 0)->interval_s, 60);
}

// From live state a step is lost at most.
TEST_F(Moments, LiveStateLosesPartOfAStep) {
  job().reconfigurations[0].rolled_back_steps = 0;
  job().reconfigurations[0].failed = {.step_s = 2, .cut_off_s = 0.5};
  job().downtime = {.reconfigurations_s = 5, .cut_off_s = 0.5};
  job().downtime_s = 5.5;
  const MomentSummary found = moments_of(report_, 0).value();
  EXPECT_EQ(found.expected_s, 6);
  EXPECT_EQ(found.low_s, 5);
  EXPECT_EQ(found.high_s, 7);
}

// A change that ended at 30 s: at 50 s the job may go back to a copy before it.
TEST_F(Moments, MovedRunsTellWhereTheFormulaDoesNot) {
  job().reconfigurations[0].index = 2;
  job().reconfigurations.insert(job().reconfigurations.begin(), {.index = 1, .at_s = 25, .resumed_s = 30});
  EXPECT_FALSE(moments_of(report_, 0).has_value());
  const Moves moves = moves_to_play(report_).value();
  EXPECT_EQ(moves.from_s, 50);
  EXPECT_THAT(moves.by_s, ElementsAre(5, 10, 15));
  for (const double downtime_s : {10.0, 60.0, 14.0}) {
    report_.moved.push_back({{.name = "gpt", .state = "running", .downtime_s = downtime_s}});
  }
  report_.moved.push_back({{.name = "gpt", .state = "failed", .downtime_s = 1}});
  scenario_.events[0].when = scenario::AtStep{.job = 0, .step = 25};
  EXPECT_FALSE(moves_to_play(report_).has_value()) << "it comes when that step comes";
  const MomentSummary found = moments_of(report_, 0).value();
  EXPECT_EQ(found.expected_s, (20 + 10 + 60 + 14) / 4.0);
  EXPECT_EQ(found.low_s, 10);
  EXPECT_EQ(found.high_s, 60);
  EXPECT_EQ(found.moved_runs, 3);
}

TEST_F(Moments, OfOneFailureOnly) {
  report_.losses.push_back({.at_s = 70, .devices = {DeviceId(0)}});
  EXPECT_FALSE(moments_of(report_, 0).has_value()) << "a worker died besides";
  report_.losses.pop_back();
  report_.script.push_back({.event = 0, .at_s = 90});
  EXPECT_FALSE(moments_of(report_, 0).has_value());
}

TEST_F(Moments, TheTableHasBoth) {
  EXPECT_THAT(
      summary_table(summary_json(report_)),
      HasSubstr("gpt: downtime 18.0 s on average (8.00 s to 28.0 s) as the failure moves over 20.0 s; 20.0 s at "
                "its moment in the scenario"));
}

// a loses 8 to 28 s, b 19 to 39 s: at 25 s either may be the better one. In phase the difference stays what it is.
TEST_F(Moments, AComparisonSaysFirstThatItsOrderDependsOnTheMoment) {
  const std::string a = summary_json(report_);
  job().downtime_s += 11;
  job().downtime.reconfigurations_s += 11;
  const std::string in_phase = summary_json(report_);
  EXPECT_THAT(compare_summaries({{"a", a}, {"b", in_phase}}, "table").value(), ::testing::StartsWith("run"));
  job().reconfigurations[0].failed->cut_off_s = 1;
  const std::string b = summary_json(report_);
  const std::string words =
      "which of these runs loses less time depends on the moment of the failure, for job gpt: a 18.0 s (8.00 s to "
      "28.0 s), b 29.0 s (19.0 s to 39.0 s)";
  EXPECT_THAT(compare_summaries({{"a", a}, {"b", b}}, "markdown").value(),
              ::testing::StartsWith("warning: " + words + "\n\n|"));
  EXPECT_THAT(compare_summaries({{"a", a}, {"b", b}}, "json").value(), HasSubstr(words));
  job().downtime_s += 10;
  job().downtime.reconfigurations_s += 10;
  EXPECT_THAT(compare_summaries({{"a", a}, {"b", summary_json(report_)}}, "table").value(),
              ::testing::StartsWith("run"))
      << "29 to 49 s";
}

}  // namespace moments_test
}  // namespace scalai::report
