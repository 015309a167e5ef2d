// `--scale-model`: narrower models, the same changes.
#include <nlohmann/json.hpp>

#include "tests/end_to_end.h"

namespace scalai::testing {
namespace {

using nlohmann::json;

// Bytes by class at 1/8: where anything moved it still moves, vectors by an eighth and matrices by its square. Most is
// in matrices, so that all together shrink by the square.
void expect_shrunk(const json& part, const json& whole) {
  double part_total = 0, whole_total = 0;
  for (const auto& [kind, bytes] : whole.items()) {
    const double share = part[kind].get<double>() / std::max(1.0, bytes.get<double>());
    EXPECT_TRUE(bytes == part[kind] || (share > 1 / 80.0 && share < 1 / 7.5)) << kind << bytes << " " << part[kind];
    part_total += part[kind].get<double>();
    whole_total += bytes.get<double>();
  }
  EXPECT_NEAR(part_total / whole_total, 1 / 64.0, 0.002);
}

class Scale : public EndToEnd {
 protected:
  // The summary of a checked run into `folder`.
  json run(const std::string& scenario, const std::string& words, const std::string& folder) const {
    const Outcome outcome = scalai(fmt::format("sim '{}' --format=json --out='{}' {}", scenario, path(folder), words));
    EXPECT_EQ(outcome.code, 0) << scenario << " " << words << "\n" << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }
};

TEST_F(Scale, EveryScenarioMovesTheSameWithFewerBytes) {
  size_t index = 0;
  for (const std::string& name : scenario_names()) {
    if (!in_share(index++, 3)) continue;
    if (name == "pay-off-gpt3-2.7b") continue;  // it weighs the seconds of a change, and fewer bytes take fewer of them
    SCOPED_TRACE(name);
    const json whole = run(scenario_file(name), "", "whole-" + name);
    const json part = run(scenario_file(name), "--scale-model=1/8 --check", "part-" + name);
    ASSERT_EQ(part["jobs"].size(), whole["jobs"].size());
    for (size_t j = 0; j < whole["jobs"].size(); ++j) {
      const json& before = whole["jobs"][j]["reconfigurations"];
      const json& after = part["jobs"][j]["reconfigurations"];
      ASSERT_EQ(after.size(), before.size());
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(after[i]["from"], before[i]["from"]);
        EXPECT_EQ(after[i]["to"], before[i]["to"]);
        EXPECT_EQ(after[i]["rounds"], before[i]["rounds"]);
        expect_shrunk(after[i]["bytes"], before[i]["bytes"]);
      }
    }
  }
}

TEST_F(Scale, RoundsStayAndTheResolvedScenarioRunsTheSame) {
  const std::string scenario =
      small_scenario("planner { round_bytes: \"100MB\" } events { at: \"20s\" redeploy { devices: [1, 3] } }");
  const json whole = run(scenario, "", "whole");
  const json part = run(scenario, "--scale-model=0.125", "part");
  const auto rounds = [](const json& summary) {
    return summary["jobs"][0]["reconfigurations"][0]["rounds"].get<int>();
  };
  EXPECT_GT(rounds(whole), 5);
  EXPECT_NEAR(rounds(part), rounds(whole), 1);
  const json again = run(path("part/scenario.resolved.textproto"), "", "again");
  EXPECT_EQ(again, part);
  EXPECT_EQ(scalai(fmt::format("replay '{}'", path("part"))).code, 0);
  EXPECT_NE(part["scenario_digest"], whole["scenario_digest"]);
}

}  // namespace
}  // namespace scalai::testing
