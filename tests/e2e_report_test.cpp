// What runs leave behind: whole reports, the same bytes each time, the same plans from a replay.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

using Json = nlohmann::json;
using ::testing::EndsWith;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace scalai::testing
