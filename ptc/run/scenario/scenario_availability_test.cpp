#include "ptc/run/scenario/internal/scenario_availability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/scenario/testing/scenarios.h"

namespace scalai::scenario {
namespace scenario_availability_test {

using policy::Availability;
using policy::FleetEvent;
using ::testing::HasSubstr;
using testing::job_text;
using Kind = policy::FleetEvent::Kind;

FleetEvent event(double at_s, Kind kind, const std::vector<int>& hosts, double until_s = 0) {
  FleetEvent one;
  one.at_s = at_s;
  one.kind = kind;
  for (const int host : hosts) one.hosts.emplace_back(host);
  one.until_s = until_s;
  return one;
}

const std::string kJob = job_text("a", "gpus: 4 steps: 1000 configs { layout: \"tp2,dp2\" step_time: \"1s\" }");

Scenario scenario_of(const std::string& text) {
  auto read = testing::scenario_of(testing::kSmallCluster + text);
  SCALAI_CHECK(read.ok(), message_of(read.status()));
  return *std::move(read);
}

// "10 preempt g0 g1 60": when, what, where.
std::string text_of(const std::vector<ScenarioEvent>& events) {
  std::string text;
  for (const ScenarioEvent& one : events) {
    text += fmt::format("{}{} ", text.empty() ? "" : "; ", std::get<AtTime>(one.when).at_s);
    const auto add = [&](const char* what, const std::vector<DeviceId>& devices) {
      text += what;
      for (const DeviceId device : devices) text += fmt::format(" g{}", device.value);
    };
    if (const auto* fail = std::get_if<Fail>(&one.what)) add("fail", fail->devices);
    if (const auto* repair = std::get_if<Repair>(&one.what)) add("repair", repair->devices);
    if (const auto* preempt = std::get_if<Preempt>(&one.what)) {
      add("preempt", preempt->devices);
      text += fmt::format(" in {}", preempt->notice_s);
    }
  }
  return text;
}

std::string events(const Availability& availability) {
  return text_of(internal::events_of(availability, scenario_of(kJob).cluster));
}

TEST(HostEvents, AreFailsRepairsAndPreemptions) {
  EXPECT_EQ(events({.up = {},
                    .events = {event(10, Kind::kFailed, {1}), event(20, Kind::kUp, {1}),
                               event(30, Kind::kNotice, {0, 2}, 150), event(150, Kind::kTaken, {0, 2}),
                               event(200, Kind::kUp, {0}), event(300, Kind::kTaken, {3})}}),
            "10 fail g2 g3; 20 repair g2 g3; 30 preempt g0 g1 g4 g5 in 120; 200 repair g0 g1; 300 fail g6 g7");
}

TEST(HostEvents, ThatChangeNothingAreLeftOut) {
  EXPECT_EQ(events({.up = {1, 0, 1, 1},
                    .events = {event(5, Kind::kUp, {0, 1}), event(10, Kind::kFailed, {2}), event(11, Kind::kTaken, {2}),
                               event(12, Kind::kNotice, {2}, 20), event(13, Kind::kPrice, {}),
                               event(14, Kind::kNotice, {3}, 14), event(14, Kind::kTaken, {3})}}),
            "5 repair g2 g3; 10 fail g4 g5; 14 fail g6 g7");
}

TEST(HostEvents, ANoticeMayBeTakenBack) {
  EXPECT_EQ(
      events({.up = {},
              .events = {event(5, Kind::kNotice, {0}, 100), event(9, Kind::kUp, {0}), event(20, Kind::kTaken, {0})}}),
      "5 preempt g0 g1 in 95; 9 repair g0 g1; 20 fail g0 g1");
}

TEST(Availability, GeneratedFailuresAreEventsOfTheScenario) {
  const std::string text = kJob + "until: \"500h\" availability { generator: \"poisson\" set: \"mtbf=20h\" }";
  const Scenario scenario = scenario_of(text);
  EXPECT_GT(scenario.events.size(), 5U);
  double last_s = 0;
  for (const ScenarioEvent& one : scenario.events) {
    EXPECT_GE(std::get<AtTime>(one.when).at_s, last_s);
    last_s = std::get<AtTime>(one.when).at_s;
  }
  EXPECT_LE(last_s, 500 * 3600.0) << "not beyond the end";
  const auto again = testing::scenario_of(scenario.resolved_text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->resolved_text, scenario.resolved_text);
  EXPECT_EQ(text_of(again->events), text_of(scenario.events));
}

TEST(Availability, ProblemsAreNamed) {
  const auto said = [&](const std::string& availability) {
    const auto read = testing::scenario_of(testing::kSmallCluster + kJob + availability);
    return read.ok() ? "" : message_of(read.status());
  };
  const auto code = [&](const std::string& availability) {
    return exit_code_of(testing::scenario_of(testing::kSmallCluster + kJob + availability).status());
  };
  EXPECT_THAT(said("availability { }"), HasSubstr("neither \"file\" nor \"generator\" is given"));
  EXPECT_THAT(said("availability { file: \"x\" generator: \"poisson\" }"), HasSubstr("exclude each other"));
  EXPECT_THAT(said("availability { generator: \"poison\" }"), HasSubstr("unknown generator \"poison\""));
  EXPECT_THAT(said("availability { generator: \"poisson\" set: \"mtfb=1h\" }"), HasSubstr("mtfb"));
  EXPECT_THAT(said("availability { file: \"x\" format: \"scalai\" }"), HasSubstr("x: no such file or folder"))
      << "a known format";
  EXPECT_EQ(code("availability { file: \"x\" }"), 4) << "a missing trace is no mistake of the file";
  EXPECT_EQ(code("availability { file: \"x\" } evnts { }"), 3);
  EXPECT_THAT(said("availability { file: \"x\" format: \"bambo\" }"), HasSubstr("unknown format \"bambo\""));
  EXPECT_THAT(said("availability { file: \"no-such-file\" format: \"bamboo\" }"), HasSubstr("no-such-file"));
  EXPECT_THAT(said("availability { generator: \"absent\" set: \"hosts=4\" }"), HasSubstr("numbers of hosts"));
  EXPECT_THAT(said("availability { generator: \"absent\" }"), HasSubstr("numbers of hosts"));
}

}  // namespace scenario_availability_test
}  // namespace scalai::scenario
