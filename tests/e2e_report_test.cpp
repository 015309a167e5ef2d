// What runs leave behind, as people use it: report folders, replay, comparison.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

using Json = nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> files_below(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(EndToEnd, ReportsAreWholeAndByteIdentical) {
  const std::string words = "sim " + scenario_file("elastic-gpt3-xl") + " --strategy=reshard,tenplex,dp-only --out=";
  const Outcome first = scalai(words + path("one")), second = scalai(words + path("two"));
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(first.out, second.out);
  const std::vector<std::string> names = files_below(path("one"));
  EXPECT_EQ(names, files_below(path("two")));
  for (const std::string strategy : {"reshard", "tenplex", "dp-only"}) {
    for (const char* file : {"summary.json", "events.csv", "transfers.csv", "devices.csv", "plans/001.binpb",
                             "scenario.resolved.textproto", "trace.pftrace", "manifest.json"}) {
      EXPECT_TRUE(std::binary_search(names.begin(), names.end(), strategy + "/" + file)) << strategy << "/" << file;
    }
    EXPECT_EQ(Json::parse(summary("one/" + strategy)).at("strategy"), strategy);
  }
  for (const std::string& name : names) {
    EXPECT_FALSE(read_all(folder_ / "one" / name).empty()) << name;
    if (name.ends_with("manifest.json")) continue;
    EXPECT_EQ(read_all(folder_ / "one" / name), read_all(folder_ / "two" / name)) << name;
  }
}

TEST_F(EndToEnd, ResolvedScenariosRunTheSame) {
  ASSERT_EQ(scalai("sim " + scenario_file("failure-gpt3-2.7b") + " --out=" + path("one")).code, 0);
  const Outcome again = scalai("sim " + path("one/scenario.resolved.textproto") + " --out=" + path("two"));
  ASSERT_EQ(again.code, 0) << again.err;
  for (const char* file : {"summary.json", "events.csv", "transfers.csv", "plans/001.binpb"}) {
    EXPECT_EQ(read_all(folder_ / "one" / file), read_all(folder_ / "two" / file)) << file;
  }
}

TEST_F(EndToEnd, ResolvedScenariosNameTheStrategyThatRan) {
  const std::string file = small_scenario(
      "events { at: \"10s\" redeploy { devices: [1, 3] } }\n"
      "expect { metric: \"/strategy\" is: \"reshard\" }\n");
  ASSERT_EQ(scalai("sim " + file + " --strategy=reshard,tenplex --out=" + path("both")).code, 0);
  EXPECT_EQ(Json::parse(summary("both/tenplex")).at("scenario_digest"),
            Json::parse(summary("both/reshard")).at("scenario_digest"));
  const Outcome again = scalai("sim " + path("both/tenplex/scenario.resolved.textproto") + " --out=" + path("again"));
  ASSERT_EQ(again.code, 0) << again.err;
  const std::vector<std::string> names = files_below(path("both/tenplex"));
  EXPECT_EQ(names, files_below(path("again")));
  for (const std::string& name : names) {
    if (name == "manifest.json") continue;
    EXPECT_EQ(read_all(folder_ / "both/tenplex" / name), read_all(folder_ / "again" / name)) << name;
  }
  EXPECT_EQ(Json::parse(summary("again")).at("strategy"), "tenplex");
}

// The scenario writes no checkpoints, so it could not name this strategy itself.
TEST_F(EndToEnd, AStrategyThatTheScenarioCouldNotNameIsRefusedBeforeAnythingIsWritten) {
  const std::string file = small_scenario("events { at: \"10s\" redeploy { devices: [1, 3] } }\n");
  for (const std::string strategies : {"checkpoint-restart", "reshard,checkpoint-restart"}) {
    const Outcome run = scalai(fmt::format("sim {} --strategy={} --out={}", file, strategies, path("run")));
    EXPECT_EQ(run.code, 3) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err,
                HasSubstr("scalai sim: error: --strategy=checkpoint-restart: job \"a\" writes no checkpoints to "
                          "restart from\nhint: add checkpoint { every_steps: 100 }"));
    EXPECT_FALSE(std::filesystem::exists(path("run"))) << strategies;
  }
}

TEST_F(EndToEnd, ReplayFindsTheSamePlans) {
  size_t index = 0;
  for (const char* name :
       {"failure-gpt3-2.7b", "elastic-gpt3-xl", "pay-off-gpt3-2.7b", "mixed-gpus", "shared-fabric"}) {
    for (const std::string& strategy : kStrategies) {
      if (!in_share(index++, 3)) continue;
      const std::string report = path(fmt::format("{}.{}", name, strategy));
      ASSERT_EQ(scalai(fmt::format("sim {} --strategy={} --out={}", scenario_file(name), strategy, report)).code, 0);
      const Outcome replay = scalai("replay " + report);
      EXPECT_EQ(replay.code, 0) << replay.out << replay.err;
      EXPECT_THAT(replay.out, EndsWith("all digests equal\n"));
      EXPECT_THAT(replay.out, HasSubstr("same"));
    }
  }
}

class Replay : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    ASSERT_EQ(scalai("sim " + scenario_file("elastic-gpt3-xl") + " --out=" + path("run")).code, 0);
    events_ = read_all(path("run/events.csv"));
  }
  // Replays with one piece of the event log replaced.
  Outcome with(const std::string& from, const std::string& to) {
    std::string text = events_;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    write_all(path("run/events.csv"), text.replace(at, from.size(), to));
    return scalai("replay " + path("run"));
  }
  std::string events_;
};

TEST_F(Replay, AnAlteredEventIsNoticed) {
  const Outcome replay = with("\n2100,timer_fired,,,,,1,", "\n2100,timer_fired,,,,,2,");  // resize to 4 instead of 8
  EXPECT_EQ(replay.code, 1) << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("DIFFERENT"));
  EXPECT_THAT(replay.out, EndsWith("digests differ\n"));
}

TEST_F(Replay, AMissingPlanIsNoticed) {
  fs::remove(path("run/plans/015.binpb"));
  const Outcome replay = scalai("replay " + path("run"));
  EXPECT_EQ(replay.code, 1);
  EXPECT_THAT(replay.out, ContainsRegex("015 +missing +[0-9a-f]+ +MISSING"));
  EXPECT_THAT(replay.out, Not(HasSubstr("DIFFERENT")));
  EXPECT_THAT(replay.out, EndsWith("1 missing on one side\n"));
}

TEST_F(Replay, ABrokenPlanIsNamed) {
  write_all(path("run/plans/002.binpb"), "x");
  const Outcome replay = scalai("replay " + path("run"));
  EXPECT_EQ(replay.code, 3);
  EXPECT_THAT(replay.err, HasSubstr(path("run/plans/002.binpb") + ": "));
}

TEST_F(Replay, ImpossibleEventsAreErrorsNotCrashes) {
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"\n2100,timer_fired,,,,,1,", "\n2100,timer_fired,,,,,999,"},
      {"\n2100,timer_fired,,,,,1,", "\n1,timer_fired,,,,,1,"},
      {"\n0,started,", "\n0,timer_fired,"},
      {",step_reached,0,", ",step_reached,7,"},
      {",step_reached,0,200,", ",step_reached,0,-200,"},
      {"\n0,started,", "\n0,began,"},
  };
  for (const auto& [from, to] : edits) {
    const Outcome replay = with(from, to);
    EXPECT_EQ(replay.code, 3) << to << "\n" << replay.err;
    EXPECT_THAT(replay.err, HasSubstr("error:")) << to;
  }
}

TEST_F(Replay, AFolderWithoutAReportIsMissing) {
  EXPECT_EQ(scalai("replay " + path("nothing")).code, 4);
  write_all(path("run/summary.json"), "{}");
  EXPECT_EQ(scalai("replay " + path("run")).code, 3);
}

TEST_F(EndToEnd, CompareShowsRunsSideBySide) {
  const std::string file = small_scenario("events { at: \"10s\" redeploy { devices: [1, 3] } }\n");
  const std::string a = path("a"), b = path("b");
  ASSERT_EQ(scalai(fmt::format("sim {} --out={}", file, a)).code, 0);
  ASSERT_EQ(scalai(fmt::format("sim {} --strategy=tenplex --out={}", file, b)).code, 0);
  const Outcome table = scalai(fmt::format("compare {} {}/", a, b));
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("downtime"));
  const Outcome json = scalai(fmt::format("compare {} {} --format=json", a, b));
  EXPECT_EQ(Json::parse(json.out).at("runs").size(), 2u);
  EXPECT_EQ(Json::parse(json.out).at("runs")[1].at("label"), "b");
  const Outcome csv = scalai(fmt::format("compare {} {} --format=csv", a, b));
  EXPECT_GT(std::count(csv.out.begin(), csv.out.end(), '\n'), 5);
  EXPECT_EQ(scalai(fmt::format("compare {} {}", a, path("none"))).code, 4);
  write_all(path("b/summary.json"), "[]");
  EXPECT_EQ(scalai(fmt::format("compare {} {}", a, b)).code, 3);
}

TEST_F(EndToEnd, CompareTakesAFolderOfReports) {
  const std::string file = small_scenario("events { at: \"10s\" redeploy { devices: [1, 3] } }\n");
  const std::string both = path("both");
  const Outcome run = scalai(fmt::format("sim {} --strategy=tenplex,reshard --out={}", file, both));
  ASSERT_EQ(run.code, 0) << run.err;
  fs::create_directory(path("both/notes"));
  const auto labels = [&](const std::string& words) {
    const Outcome json = scalai(words + " --format=json");
    std::vector<std::string> names;
    const Json parsed = Json::parse(json.out);
    for (const Json& one : parsed.at("runs")) names.push_back(one.at("label"));
    return names;
  };
  const std::vector<std::string> sorted = {"reshard", "tenplex"};
  EXPECT_EQ(labels("compare " + both), sorted);
  EXPECT_EQ(labels("compare " + both + "/"), sorted);
  const std::vector<std::string> mixed = {"both/reshard", "both/tenplex", "tenplex"};
  EXPECT_EQ(labels(fmt::format("compare {0} {0}/tenplex", both)), mixed);
  const Outcome empty = scalai("compare " + path("both/notes"));
  EXPECT_EQ(empty.code, 4);
  EXPECT_THAT(empty.err, HasSubstr("both/notes/summary.json"));
}

TEST_F(EndToEnd, CompareGivesNoRatioOfDifferentScenarios) {
  ASSERT_EQ(scalai("sim " + small_scenario("") + " --out=" + path("a")).code, 0);
  ASSERT_EQ(scalai("sim " + small_scenario("seed: 7\n") + " --out=" + path("b")).code, 0);
  const std::string words = fmt::format("compare {} {}", path("a"), path("b"));
  const Outcome table = scalai(words);
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("note: the runs are of different scenarios"));
  EXPECT_THAT(table.out, Not(HasSubstr("×")));
  const Json json = Json::parse(scalai(words + " --format=json").out);
  EXPECT_EQ(json.at("same_scenario"), false);
  EXPECT_EQ(json.at("rows")[0].at("values").size(), 2u);
}

TEST_F(EndToEnd, ResultsArePrintedInThreeForms) {
  const std::string file = small_scenario("");
  EXPECT_EQ(Json::parse(scalai("sim " + file + " --format=json").out).at("scenario"), "small");
  EXPECT_EQ(Json::parse(scalai("sim " + file + " --format=json --strategy=reshard,tenplex").out).at("runs").size(), 2u);
  EXPECT_THAT(scalai("sim " + file + " --format=csv").out, HasSubstr(",reshard"));
  EXPECT_THAT(scalai("sim " + file).out, HasSubstr("small"));
}

}  // namespace
}  // namespace scalai::testing
