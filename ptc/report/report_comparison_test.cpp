// Differences, the best run, and runs of many jobs; report_table_test.cpp has the comparison of runs of one job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ptc/base/status.h"
#include "ptc/report/report.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace report_comparison_test {

using Json = nlohmann::ordered_json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string run_with_downtime(double seconds) {
  const scenario::Scenario scenario = testing::example_scenario();
  Json json = Json::parse(summary_json(testing::example_report(scenario)));
  json["jobs"][0]["downtime_s"] = seconds;
  return json.dump();
}

std::string cluster_run(const std::string& policy, double jct_s, double utilization,
                        const std::string& kind = "cluster") {
  return Json({{"schema_version", 1},
               {"kind", kind},
               {"scenario", "week"},
               {"scenario_digest", policy},  // the policy is part of the file
               {"seed", 1},
               {"workload", "philly: 500 jobs"},
               {"policy", policy},
               {"metrics", {{"jobs", 500}, {"avg_jct_s", jct_s}, {"utilization", utilization}, {"cost_usd", nullptr}}}})
      .dump();
}

// 20 s, 50 s, 10 s: 50 / 20 is 150 % more, 10 / 20 half less; the last is the best.
TEST(Comparison, DifferencesToTheFirst) {
  const std::string text =
      compare_summaries({{"a", run_with_downtime(20)}, {"b", run_with_downtime(50)}, {"c", run_with_downtime(10)}},
                        "table", Against::kFirst)
          .value();
  EXPECT_THAT(text, ContainsRegex("downtime +20.0 s +50.0 s +\\+150 % +10.0 s \\* +−50 %"));
  EXPECT_THAT(text, ContainsRegex("lost steps +[0-9]+ +[0-9]+ +=")) << "equal, and nobody is the best";
  EXPECT_THAT(text, Not(HasSubstr(" ratio")));
}

TEST(Comparison, OtherScenariosHaveNoDifferences) {
  Json other = Json::parse(run_with_downtime(50));
  other["scenario"] = "another";
  other["scenario_digest"] = "ffffffffff";
  const std::string text =
      compare_summaries({{"a", run_with_downtime(20)}, {"b", other.dump()}}, "table", Against::kFirst).value();
  EXPECT_THAT(text, Not(HasSubstr(" %")));
  EXPECT_THAT(text, HasSubstr("note: the runs are of different scenarios"));
}

// What `--vary` makes: one scenario with other settings.
TEST(Comparison, SettingsOfOneScenarioHaveDifferences) {
  Json other = Json::parse(run_with_downtime(50));
  other["scenario_digest"] = "ffffffffff";
  const std::vector<Alternative> runs = {{"a", {run_with_downtime(20)}}, {"b", {other.dump()}}};
  const std::string text = compare_alternatives(runs, {.against = Against::kFirst}).value();
  EXPECT_THAT(text, ContainsRegex("downtime +20.0 s \\* +50.0 s +\\+150 %"));
  EXPECT_THAT(text, HasSubstr("note: the runs' scenarios differ in settings"));
  EXPECT_THAT(compare_alternatives(runs, {.varied = true}).value(), Not(HasSubstr("note:")));
}

// Seeds 20 s, 30 s, 50 s: median 30 s; of fewer than six the interval is all of them, and 50 s is 20 s from 30 s.
TEST(Comparison, SeedsHaveAMedianAndADistance) {
  const std::vector<Alternative> runs = {{"a", {run_with_downtime(20), run_with_downtime(50), run_with_downtime(30)}},
                                         {"b", {run_with_downtime(60), run_with_downtime(60), run_with_downtime(60)}}};
  const std::string text = compare_alternatives(runs, {.against = Against::kFirst}).value();
  EXPECT_THAT(text, ContainsRegex("downtime +30.0 s ± 20.0 s \\* +60.0 s +\\+100 %"));
  const Json json = Json::parse(compare_alternatives(runs, {.format = "json"}).value());
  ASSERT_EQ(json["runs"].size(), 2u);
  for (const Json& row : json["rows"]) {
    if (row["metric"] != "downtime_s" || row["job"] != "gpt") continue;
    EXPECT_EQ(row["values"], Json({30.0, 60.0}));
    EXPECT_EQ(row["low"], Json({20.0, 60.0}));
    EXPECT_EQ(row["high"], Json({50.0, 60.0}));
  }
  const std::string csv = compare_alternatives(runs, {.format = "csv"}).value();
  EXPECT_THAT(csv, HasSubstr("job,metric,unit,a,a_low,a_high,b,b_low,b_high,b_diff,b_diff_low,b_diff_high,ratio\n"));
  EXPECT_THAT(csv, HasSubstr(",downtime_s,s,30,20,50,60,60,60,,,,2\n")) << "a seed that is there twice makes no pairs";
}

// Seeds differ by 30 s, policies by 2 to 6 s on each; a seed that only one has would hide it: the medians are 30 and 46
// s.
TEST(Comparison, RunsOfTheSameSeedsArePairs) {
  const auto run = [](uint64_t seed, double downtime_s) {
    Json json = Json::parse(run_with_downtime(downtime_s));
    json["seed"] = seed;
    return json.dump();
  };
  const std::vector<Alternative> runs = {{"a", {run(1, 20), run(2, 50), run(3, 30)}},
                                         {"b", {run(2, 55), run(3, 36), run(1, 22), run(7, 1000)}}};
  const std::string text = compare_alternatives(runs, {.against = Against::kFirst}).value();
  EXPECT_THAT(text, ContainsRegex("downtime .* \\+10 % \\(\\+10 to \\+20\\)")) << text;
  const Json json = Json::parse(compare_alternatives(runs, {.format = "json"}).value());
  for (const Json& row : json["rows"]) {
    if (row["metric"] != "downtime_s" || row["job"] != "gpt") continue;
    EXPECT_EQ(row["paired"], Json::parse(R"([{"pairs": 3, "median": 5.0, "low": 2.0, "high": 6.0}])"));
  }
  EXPECT_THAT(compare_alternatives(runs, {.format = "csv"}).value(), HasSubstr(",5,2,6,"));
}

// Where not all fits, ± goes and Δ stays.
TEST(Comparison, DifferencesOutlastDeviationsOnANarrowScreen) {
  const auto run = [](const std::string& policy, uint64_t seed, double jct_s) {
    Json json = Json::parse(cluster_run(policy, jct_s, 0.5));
    json["seed"] = seed;
    return json.dump();
  };
  const std::vector<Alternative> runs = {{"fifo", {run("fifo", 1, 7200), run("fifo", 2, 9000), run("fifo", 3, 8000)}},
                                         {"srtf", {run("srtf", 1, 3600), run("srtf", 2, 4000), run("srtf", 3, 3800)}}};
  const auto text = [&](size_t columns) {
    return compare_alternatives(runs, {.against = Against::kFirst, .screen = {.columns = columns}}).value();
  };
  EXPECT_THAT(text(0), HasSubstr("±"));
  EXPECT_THAT(text(72), ContainsRegex("JCT, mean +2 h 13 min +1 h 3 min \\* +−52 % \\(−56 to −50\\)\n"));
  EXPECT_THAT(text(72), HasSubstr("\nnot shown: ±; --wide shows all\n"));
  EXPECT_THAT(text(40), HasSubstr("not shown: Δ; --wide shows all\nnot shown: ±;")) << "runs outlast both";
}

TEST(PairedDifference, OfSeedsThatBothHave) {
  ComparisonRow row;
  row.by_seed = {{{1, 10}, {2, 20}, {3, 0}}, {{1, 12}, {2, 18}, {4, 7}}, {{3, 1}, {1, 1}}, {{9, 1}}};
  const auto absolute = paired_difference(row, 1, 0, false), relative = paired_difference(row, 1, 0, true);
  ASSERT_TRUE(absolute && relative);
  EXPECT_EQ(absolute->pairs, 2u);
  EXPECT_EQ(absolute->spread.low, -2);
  EXPECT_EQ(absolute->spread.high, 2);
  EXPECT_DOUBLE_EQ(relative->spread.high, 0.2);
  EXPECT_DOUBLE_EQ(relative->spread.low, -0.1);
  EXPECT_TRUE(paired_difference(row, 2, 0, false));
  EXPECT_FALSE(paired_difference(row, 2, 0, true)) << "to 0";
  EXPECT_FALSE(paired_difference(row, 3, 0, false)) << "no seed that both have";
  EXPECT_FALSE(paired_difference(row, 0, 0, false));
}

TEST(Comparison, PoliciesOfOneWorkload) {
  const std::vector<std::pair<std::string, std::string>> runs = {{"fifo", cluster_run("fifo", 7200, 0.8)},
                                                                 {"srtf", cluster_run("srtf", 3600, 0.72)}};
  const std::string text = compare_summaries(runs, "table", Against::kFirst).value();
  EXPECT_THAT(text, ContainsRegex("policy +fifo +srtf"));
  EXPECT_THAT(text, ContainsRegex("JCT, mean +2 h 0 min +1 h 0 min \\* +−50 %"));
  EXPECT_THAT(text, ContainsRegex("GPUs training +80.0 % \\* +72.0 % +−10 %"));
  EXPECT_THAT(text, Not(HasSubstr("cost"))) << "nobody has prices";
  EXPECT_THAT(text, Not(HasSubstr("note:"))) << "another policy is no other question";
  const Json json = Json::parse(compare_summaries(runs, "json").value());
  EXPECT_EQ(json["rows"][1]["metric"], "avg_jct_s");
  EXPECT_EQ(json["rows"][1]["ratio"], 0.5);
  EXPECT_THAT(compare_summaries(runs, "csv").value(), HasSubstr(",avg_jct_s,s,7200,3600,0.5\n"));
  Json other = Json::parse(cluster_run("srtf", 1, 1));
  other["workload"] = "another";
  EXPECT_THAT(compare_summaries({runs[0], {"b", other.dump()}}, "table").value(), HasSubstr("different scenarios"));
}

// Nobody knows which way a metric of the user is better.
TEST(Comparison, MetricsOfTheUserAreCompared) {
  const auto run = [](const std::string& policy, double late) {
    Json json = Json::parse(cluster_run(policy, 3600, 0.5));
    json["metrics"]["late"] = late;
    return json.dump();
  };
  const std::string text =
      compare_summaries({{"a", run("fifo", 0.5)}, {"b", run("srtf", 0.25)}}, "table", Against::kFirst).value();
  EXPECT_THAT(text, ContainsRegex("late +0.5 +0.25 +−50 %"));
  const std::string one =
      compare_summaries({{"a", run("fifo", 0.5)}, {"b", cluster_run("srtf", 3600, 0.5)}}, "csv").value();
  EXPECT_THAT(one, HasSubstr(",late,,0.5,,"));
  Json none = Json::parse(run("fifo", 0));
  none["metrics"]["late"] = nullptr;
  EXPECT_THAT(compare_summaries({{"a", none.dump()}}, "table").value(), ContainsRegex("\nlate +–\n"));
}

TEST(Comparison, RecoveryDesigns) {
  const std::string text = compare_summaries({{"a", cluster_run("templates", 1, 1, "recovery")}}, "table").value();
  EXPECT_THAT(text, ContainsRegex("runtime +recovery"));
}

TEST(Comparison, OfDifferentRulesWarns) {
  const auto run = [](const std::string& design, const std::string& rules) {
    Json json = Json::parse(cluster_run(design, 1, 1, "recovery"));
    json["rules"] = rules;
    return json.dump();
  };
  const std::pair<std::string, std::string> one{"a", run("templates", "steady")};
  EXPECT_THAT(compare_summaries({one, {"b", run("reshard", "steady")}}, "table").value(), Not(HasSubstr("warning")));
  const std::string text = compare_summaries({one, {"b", run("templates", "published")}}, "table").value();
  EXPECT_THAT(text, HasSubstr("warning: the runs' rules differ, and what they differ in may be that: a is steady, b is "
                              "published\n"));
  EXPECT_THAT(compare_summaries({one, {"b", cluster_run("reshard", 1, 1, "recovery")}}, "table").value(),
              HasSubstr("b is not said\n"));
  const Json json = Json::parse(compare_summaries({one, {"b", run("reshard", "published")}}, "json").value());
  EXPECT_EQ(json["runs"][1]["rules"], "published");
}

TEST(Comparison, HasTheNotesOfItsRuns) {
  const auto run = [](const std::string& policy, uint64_t seed, const std::vector<std::string>& notes) {
    Json json = Json::parse(cluster_run(policy, 3600, 0.5));
    json["seed"] = seed;
    json["notes"] = notes;
    json["policy_remarks"] = policy == "ideal" ? "4 rounds" : "";
    return json.dump();
  };
  const std::vector<Alternative> runs = {
      {"fifo", {run("fifo", 1, {"assumed: all"}), run("fifo", 2, {"assumed: all", "odd"})}},
      {"ideal", {run("ideal", 1, {"assumed: all", "continuous"}), run("ideal", 2, {"assumed: all", "continuous"})}}};
  const auto text = [&](const std::string& format) { return compare_alternatives(runs, {.format = format}).value(); };
  const std::string notes[] = {"note: assumed: all\n", "note: fifo: odd\n", "note: ideal: continuous\n",
                               "note: ideal: policy: 4 rounds\n"};
  EXPECT_THAT(text("table"), HasSubstr("\n" + notes[0] + notes[1] + notes[2] + notes[3]));
  EXPECT_THAT(text("markdown"), HasSubstr("|\n\n- " + notes[0] + "- " + notes[1] + "- " + notes[2] + "- " + notes[3]));
  const Json json = Json::parse(text("json"));
  EXPECT_EQ(json["runs"][0]["notes"], Json({"assumed: all", "odd"}));
  EXPECT_EQ(json["runs"][1]["notes"], Json({"assumed: all", "continuous"}));
  EXPECT_EQ(json["runs"][1]["policy_remarks"], "4 rounds");
}

TEST(Comparison, EquallyGoodRunsAreAllMarked) {
  const std::string text = compare_summaries({{"a", cluster_run("fifo", 7200, 0.8)},
                                              {"b", cluster_run("srtf", 3600, 0.8)},
                                              {"c", cluster_run("las", 3600, 0.80001)}},
                                             "table", Against::kFirst)
                               .value();
  EXPECT_THAT(text, ContainsRegex("JCT, mean +2 h 0 min +1 h 0 min \\* +−50 % +1 h 0 min \\* +−50 %"));
  EXPECT_THAT(text, ContainsRegex("GPUs training +80.0 % +80.0 % += +80.0 % \\* +≈"));
}

TEST(Comparison, OtherVersionsAndKindsAreRefused) {
  const auto message = [](const std::string& json) {
    return message_of(compare_summaries({{"a", json}}, "table").status());
  };
  Json run = Json::parse(cluster_run("fifo", 1, 1));
  run["schema_version"] = 99;
  EXPECT_THAT(message(run.dump()), HasSubstr("a: not a summary.json of version 1"));
  EXPECT_THAT(message(cluster_run("fifo", 1, 1, "farm")), HasSubstr("a: unknown kind of report \"farm\""));
}

TEST(Comparison, Markdown) {
  const std::string text =
      compare_summaries({{"a|b", cluster_run("fifo", 7200, 0.8)}, {"c", cluster_run("srtf", 3600, 0.7)}}, "markdown",
                        Against::kFirst)
          .value();
  EXPECT_THAT(text, HasSubstr("|---|---:|---:|---:|\n"));
  EXPECT_THAT(text, HasSubstr("| JCT, mean | 2 h 0 min | 1 h 0 min * | −50 % |\n"));
}

}  // namespace report_comparison_test
}  // namespace scalai::report
