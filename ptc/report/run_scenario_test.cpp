#include "ptc/report/run_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/proto/textproto.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace run_scenario_test {

using ::testing::HasSubstr;

constexpr const char* kResolved =
    R"(name: "real" cluster { hosts { count: 2 gpus: 2 } } costs { communicator: "9s" detect: "1s" }
jobs { name: "gpt" configs { layout: "dp2" step_time: "1s" } configs { layout: "tp2,dp2" step_time: "1s" } }
jobs { name: "bert, large" configs { layout: "dp2" step_time: "1s" } }
)";

class RunScenarioTest : public ::testing::Test {
 protected:
  RunScenarioTest() {
    report_.recorder.trained = {{0, "dp2", 2, 10, 5, 1}};
    auto& changes = report_.jobs[0].reconfigurations;
    changes[0].phases = {.plan = 0.25, .prepare = 2, .transfer = 1, .verify = 4, .resume = 3};
    changes.push_back(changes[0]);  // as the third, another one that came to its end
    changes[2].phases = {.plan = 0.75, .prepare = 1, .transfer = 1, .resume = 5};
    changes[2].cause = "drain of h1";
  }
  // Of one device that allocates 800 bytes and receives nothing.
  static absl::StatusOr<plan::Plan> plan_of(const std::string&) {
    plan::PlanDraft plan;
    plan.memory = {{.device = DeviceId(0), .before = 100, .after = 900, .peak_extra = 0}};
    return plan::seal(std::move(plan));
  }
  absl::StatusOr<MeasuredScenario> measured() {
    return measured_scenario(kResolved, summary_json(report_), [this](const std::string& file) {
      files_.push_back(file);
      return plan_of(file);
    });
  }
  static proto::Scenario parsed(const std::string& text) {
    proto::Scenario scenario;
    Diagnostics diagnostics("measured", text);
    proto::Places places;
    proto::parse_textproto(text, scenario, diagnostics, places);
    EXPECT_EQ(diagnostics.render(), "");
    return scenario;
  }

  scenario::Scenario scenario_ = testing::example_scenario();
  control::RunReport report_ = testing::example_report(scenario_);
  std::vector<std::string> files_;
};

TEST_F(RunScenarioTest, HasWhatWasMeasured) {
  const auto found = measured();
  ASSERT_TRUE(found.ok()) << found.status();
  const proto::Scenario scenario = parsed(found->text);
  EXPECT_EQ(scenario.jobs(0).configs(0).step_time(), "0.5s") << "5 s for 10 steps";
  EXPECT_EQ(scenario.jobs(0).configs(1).step_time(), "1s") << "nobody trained in it";
  EXPECT_EQ(scenario.jobs(1).configs(0).step_time(), "1s") << "of another job";
  ASSERT_EQ(scenario.costs_size(), 2) << "the scenario's own stay, and those that were measured come after them";
  EXPECT_EQ(scenario.costs(0).detect(), "1s");
  const proto::Costs& costs = scenario.costs(1);
  EXPECT_EQ(costs.strategy(), "reshard");
  EXPECT_EQ(costs.plan(), "0.5s");
  EXPECT_EQ(costs.communicator(), "4s");
  EXPECT_EQ(costs.restart(), "0s");
  EXPECT_EQ(costs.allocate_rate(), "600B/s") << "of 400 and 800; the change that failed does not count";
  EXPECT_EQ(costs.verify_rate(), "") << "no device received anything";
  EXPECT_EQ(costs.detect(), "");
  EXPECT_EQ(files_.size(), 2u);
}

// Nobody measured it by itself: the phase `resume`, which was measured, has it.
TEST_F(RunScenarioTest, CompilationIsNotCountedTwice) {
  EXPECT_EQ(parsed(measured()->text).costs(1).compile(), "");
  const std::string compiles = std::string(kResolved) + "costs { strategy: \"tenplex\" compile: \"9s\" }\n";
  const auto other = measured_scenario(compiles, summary_json(report_), plan_of);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(parsed(other->text).costs(2).compile(), "0s");
}

TEST_F(RunScenarioTest, RequestsOfUsersAreEventsUnlessThereWereOthers) {
  const proto::Scenario scenario = parsed(measured()->text);
  ASSERT_EQ(scenario.events_size(), 1) << "the drain is none";
  EXPECT_EQ(scenario.events(0).at_step().job(), "gpt");
  EXPECT_EQ(scenario.events(0).at_step().step(), 10);
  EXPECT_EQ(scenario.events(0).resize().gpus(), 4);
  const std::string with_events = std::string(kResolved) + "events { at: \"3s\" fail { hosts: 1 } }\n";
  const auto other = measured_scenario(with_events, summary_json(report_), plan_of);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(parsed(other->text).events_size(), 1);
  EXPECT_TRUE(parsed(other->text).events(0).has_fail());
}

TEST_F(RunScenarioTest, SaysWhatItChanged) {
  const auto found = measured();
  std::vector<std::string> lines;
  for (const MeasuredValue& one : found->values)
    lines.push_back(one.job + "|" + one.what + "|" + one.measured + "|" + std::to_string(one.samples));
  EXPECT_THAT(lines, ::testing::ElementsAre("gpt|step_time of dp2|0.5s|10", "|plan|0.5s|2", "|restart|0s|2",
                                            "|communicator|4s|2", "|allocate_rate|600B/s|2"));
}

TEST_F(RunScenarioTest, OtherRunsAreRefused) {
  report_.recorder.trained.clear();
  EXPECT_THAT(message_of(measured().status()), HasSubstr("no job of this run was really trained"));
  EXPECT_THAT(message_of(measured_scenario("jobs {", summary_json(report_), plan_of).status()),
              HasSubstr("scenario.resolved.textproto:1:"));
  EXPECT_FALSE(measured_scenario(kResolved, "{}", plan_of).ok());
}

TEST_F(RunScenarioTest, AJobThatTheScenarioDoesNotHave) {
  EXPECT_THAT(message_of(measured_scenario("name: \"real\"", summary_json(report_), plan_of).status()),
              HasSubstr("the scenario has no job \"gpt\""));
}

}  // namespace run_scenario_test
}  // namespace scalai::report
