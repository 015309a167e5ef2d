#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/report.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace report_table_test {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;
using Runs = std::vector<std::pair<std::string, std::string>>;

std::string example_json() {
  const scenario::Scenario scenario = testing::example_scenario();
  return summary_json(testing::example_report(scenario));
}

// The example with one value changed.
std::string changed(const char* pointer, const Json& value) {
  Json json = Json::parse(example_json());
  json[Json::json_pointer(pointer)] = value;
  return json.dump();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string line_with(const std::string& text, const std::string& start) {
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(start)) return line;
  }
  return "no line starts with " + start + " in\n" + text;
}

size_t widest(const std::string& text) {
  size_t width = 0;
  for (const std::string& line : lines_of(text)) width = std::max(width, columns_of(line));
  return width;
}

TEST(Table, LargeNumbersHaveNoExponent) {
  EXPECT_EQ(four_digits(0.94341), "0.9434");
  EXPECT_EQ(four_digits(9999.6), "10000");
  EXPECT_EQ(four_digits(18692431.5), "18690000");
  EXPECT_EQ(four_digits(-1234567), "-1235000");
}

TEST(SummaryTable, ShowsARunAtAGlance) {
  EXPECT_EQ(
      summary_table(example_json()),
      "scenario grow-then-lose  strategy reshard  runtime sim  seed 18446744073709551615  end 100.0 s\n"
      "\n"
      "job          state    steps  samples   wall  training  downtime  lost steps  goodput  GPU hours\n"
      "-----------  -------  -----  -------  -----  --------  --------  ----------  -------  ---------\n"
      "gpt          running    100     3200  100 s    83.0 s    20.0 s           3    32 /s        0.1\n"
      "bert, large  waiting      0        0  100 s       0 s     100 s           0     0 /s          0\n"
      "\n"
      "job          downtime           time  why\n"
      "-----------  ---------------  ------  -----------------------------------------------\n"
      "gpt          pauses           12.0 s  2 reconfigurations\n"
      "gpt          waiting          3.00 s  no layout fits 1 GPUs\n"
      "gpt          steps run again  3.00 s  3 steps done after the snapshot\n"
      "gpt          steps cut off    500 ms  by failures, or the end of the run\n"
      "gpt          snapshot stalls  1.50 s  training stood still for checkpoints and copies\n"
      "bert, large  waiting           100 s  queued; until the end of the run\n"
      "\n"
      "job      at  cause        from → to      same host  cross host    bound  storage  transfer       pause  lost\n"
      "---  ------  -----------  -------------  ---------  ----------  -------  -------  --------  ----------  ----\n"
      "gpt  10.0 s  resize to 4  dp2 → tp2,dp2    1.00 kB     5.00 kB  5.00 kB      0 B    1.00 s      5.00 s     0\n"
      "gpt  50.0 s  lost g2, g3  tp2,dp2 → dp2        0 B     9.00 kB  9.00 kB     60 B       0 s  never ends     3\n"
      "\nwhat these times rest on:\n"
      "step      given     step_time\n"
      "detect    assumed   stack stock-2025; published: 2.00 s to 60.0 s\n"
      "stop      modelled  end of the step under way\n"
      "restart   given     costs\n"
      "transfer  modelled  links of the cluster; published of other software: 0.94 to 9.8 times as long\n");
}

// Of an executed run the measured pause stands beside what the scenario's clock counts.
TEST(SummaryTable, MeasuredPausesAndThoseOfTheScenario) {
  Json json = Json::parse(example_json());
  auto& one = json.at("jobs").at(0).at("reconfigurations").at(0);
  one["scenario_phases_s"] = one.at("phases_s");
  const std::string table = summary_table(json.dump());
  EXPECT_EQ(line_with(table, "gpt  10.0 s"),
            "gpt  10.0 s  resize to 4  dp2 → tp2,dp2    1.00 kB     5.00 kB  5.00 kB      0 B    1.00 s      5.00 s    "
            "  5.00 s     0");
  EXPECT_EQ(line_with(table, "pause:"), "pause: measured; scenario: by its clock, with costs that workers do not have");
  EXPECT_EQ(line_with(summary_table(example_json()), "pause:").find("no line"), 0U);
}

// Two jobs under a policy: one is done in time, the other never began.
control::RunReport scheduled(const scenario::Scenario& scenario) {
  control::RunReport report = testing::example_report(scenario);
  report.jobs[0].state = "complete";
  report.jobs[0].schedule = {
      .submit_s = 30, .first_start_s = 42, .waited_s = 15, .restarts = 2, .preemptions = 1, .deadline_s = 130};
  report.jobs[1].state = "refused";
  report.jobs[1].schedule = {.submit_s = 50, .first_start_s = {}, .waited_s = 7, .deadline_s = 500};
  return report;
}

TEST(SummaryTable, ShowsWhenJobsGotTheirGpus) {
  const scenario::Scenario scenario = testing::example_scenario();
  const std::string text = summary_table(summary_json(scheduled(scenario)));
  EXPECT_THAT(text, HasSubstr("\n"
                              "job          submitted  started  waited  completion  restarts  preempted  deadline\n"
                              "-----------  ---------  -------  ------  ----------  --------  ---------  --------\n"
                              "gpt             30.0 s   42.0 s  15.0 s       100 s         2          1  met\n"
                              "bert, large     50.0 s    never  7.00 s           –         0          0  missed\n"
                              "1 of 2 jobs complete; mean completion time 100 s, mean wait 15.0 s\n"));
}

TEST(Schedule, IsInTheSummaryWithItsDeadline) {
  const scenario::Scenario scenario = testing::example_scenario();
  control::RunReport report = scheduled(scenario);
  report.jobs[0].schedule->deadline_s = 129;  // it came at 30 and took 100
  report.jobs[1].state = "waiting";
  const Json json = Json::parse(summary_json(report));
  EXPECT_EQ(json.at("/jobs/0/schedule"_json_pointer).dump(),
            R"({"submit_s":30.0,"first_start_s":42.0,"waited_s":15.0,"restarts":2,"preemptions":1,"deadline_s":129.0,)"
            R"("deadline_met":false})");
  EXPECT_TRUE(json.at("/jobs/1/schedule/first_start_s"_json_pointer).is_null());
  EXPECT_TRUE(json.at("/jobs/1/schedule/deadline_met"_json_pointer).is_null()) << "it may still be";
  const auto readme = read_file(std::string(SCALAI_SOURCE_DIR) + "/docs/reports.md");
  ASSERT_TRUE(readme.ok());
  for (const auto& [key, value] : json.at("/jobs/0/schedule"_json_pointer).items())
    EXPECT_THAT(*readme, HasSubstr("`" + key + "`"));
}

// A batch other than the scenario's, and GPUs that stay idle: told once, however long it lasts.
TEST(SummaryTable, ShowsAnotherBatchAndIdleGpus) {
  scenario::Scenario scenario = testing::example_scenario();
  scenario.jobs[0].training.global_batch = 1024;
  control::RunReport report = testing::example_report(scenario);
  const std::string idle = "7 of 8 GPUs: no valid layout of 8";
  report.jobs[0].configurations = {
      {.since_s = 0, .layout = "dp8", .gpus = 8, .global_batch = 1024, .recompute = "none", .step_s = 1},
      {.since_s = 20, .layout = "dp7", .gpus = 7, .global_batch = 1022, .recompute = "none", .step_s = 2, .idle = idle},
      {.since_s = 50,
       .layout = "dp7",
       .gpus = 7,
       .global_batch = 1022,
       .recompute = "none",
       .step_s = 3,
       .idle = idle}};
  const Json json = Json::parse(summary_json(report));
  EXPECT_FALSE(json.at("/jobs/0/configurations/0"_json_pointer).contains("global_batch"));
  EXPECT_FALSE(json.at("/jobs/0/configurations/0"_json_pointer).contains("idle"));
  EXPECT_EQ(json.at("/jobs/0/configurations/1/global_batch"_json_pointer), 1022);
  EXPECT_EQ(json.at("/jobs/0/configurations/1/idle"_json_pointer), idle);
  EXPECT_THAT(summary_table(json.dump()),
              HasSubstr("job    from  trains as  GPUs     batch  micro-batch  recompute    step  MFU\n"
                        "---  ------  ---------  ----  --------  -----------  ---------  ------  ---\n"
                        "gpt   0.0 s  dp8           8  as given            1  none       1.00 s    –\n"
                        "gpt  20.0 s  dp7           7      1022            1  none       2.00 s    –\n"
                        "gpt  50.0 s  dp7           7      1022            1  none       3.00 s    –\n"
                        "gpt from 20.0 s: 7 of 8 GPUs: no valid layout of 8\n"));
}

TEST(SummaryTable, SaysWhyAJobFailed) {
  EXPECT_THAT(summary_table(changed("/jobs/0/failure", "layers.3.weight [0:4] has no holder\n\x1b[2J")),
              HasSubstr("gpt failed: layers.3.weight [0:4] has no holder??[2J\n"));
}

TEST(SummaryTable, LeavesOutWhatIsNotThere) {
  Json json = Json::parse(example_json());
  json["jobs"].erase(1);
  EXPECT_THAT(summary_table(json.dump()), HasSubstr("\n    at  cause"));
  json["jobs"][0]["reconfigurations"] = Json::array();
  EXPECT_THAT(summary_table(json.dump()), HasSubstr("\nno reconfigurations\n"));
}

TEST(SummaryTable, LongNamesAreCut) {
  Json json = Json::parse(example_json());
  for (Json& job : json["jobs"]) job["name"] = std::string(300, 'n');
  for (Json& r : json["jobs"][0]["reconfigurations"]) {
    r["cause"] = std::string(300, 'c');
    r["from"] = r["to"] = std::string(300, 'l');
  }
  EXPECT_LE(widest(summary_table(json.dump())), 200U);
}

TEST(SummaryTable, AnythingElseIsNamed) { EXPECT_THAT(summary_table("{}"), HasSubstr("not a summary.json")); }

TEST(Compare, TwoRunsSideBySideWithTheirRatio) {
  const auto text = compare_summaries({{"a", example_json()}, {"b", changed("/jobs/0/downtime_s", 50)}}, "table");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(line_with(*text, "run"), "run                      a        b  ratio");
  EXPECT_EQ(line_with(*text, "strategy"), "strategy           reshard  reshard");
  EXPECT_EQ(line_with(*text, "job gpt"), "job gpt            running  running");
  EXPECT_EQ(line_with(*text, "downtime"), "downtime            20.0 s   50.0 s   ×2.5");
  EXPECT_EQ(line_with(*text, "pause, mean"), "pause, mean         10.2 s   10.2 s     ×1");
  EXPECT_EQ(line_with(*text, "cross host, bound"), "cross host, bound  5.00 kB  5.00 kB     ×1");
  EXPECT_THAT(*text, HasSubstr("\n  restart"));
  EXPECT_THAT(*text, Not(HasSubstr("\n  verify"))) << "all zero";
  EXPECT_THAT(*text, HasSubstr("\njob bert, large"));
  EXPECT_THAT(*text, Not(HasSubstr("note:")));
}

TEST(Compare, ThreeRunsFitATerminal) {
  const std::string long_label(60, 'x');
  const auto text = compare_summaries(
      {{long_label + "1", example_json()}, {long_label + "2", example_json()}, {long_label + "3", example_json()}},
      "table");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_LE(widest(*text), 120U);
  EXPECT_THAT(*text, HasSubstr("xxx3")) << "the end of a label tells runs apart";
  EXPECT_THAT(*text, Not(HasSubstr(" ratio")));
}

TEST(Compare, OtherScenariosAreNoted) {
  const auto text = compare_summaries({{"a", example_json()}, {"b", changed("/scenario", "other")}}, "table");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("note: the runs are of different scenarios: a is \"grow-then-lose\" (01234567, seed "
                               "18446744073709551615), b is \"other\" (01234567, seed 18446744073709551615)\n"));
  EXPECT_THAT(*text, Not(HasSubstr(" ratio")));
  EXPECT_THAT(*text, Not(HasSubstr("×")));
}

TEST(Compare, AnotherSeedIsAnotherScenario) {
  const Runs runs = {{"a", example_json()}, {"b", changed("/seed", 7)}};
  const std::string table = compare_summaries(runs, "table").value();
  EXPECT_THAT(table, HasSubstr("b is \"grow-then-lose\" (01234567, seed 7)\n"));
  EXPECT_THAT(table, Not(HasSubstr(" ratio")));
  const Json json = Json::parse(compare_summaries(runs, "json").value());
  EXPECT_EQ(json["same_scenario"], false);
  EXPECT_EQ(json["rows"][4]["values"].dump(), "[20.0,20.0]");
  EXPECT_THAT(compare_summaries(runs, "csv").value(), HasSubstr("gpt,downtime_s,s,20,20,"));
}

TEST(Compare, AJobThatARunLacksIsADash) {
  const auto text = compare_summaries({{"a", example_json()}, {"b", changed("/jobs/1/name", "other")}}, "table");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(line_with(*text, "job bert, large"), "job bert, large    waiting        –");
  EXPECT_EQ(line_with(*text, "job other"), "job other                –  waiting");
}

TEST(Compare, CsvHasExactNumbers) {
  const auto csv = compare_summaries({{"a", example_json()}, {"b,>", changed("/jobs/0/downtime_s", 0.1)}}, "csv");
  ASSERT_TRUE(csv.ok()) << csv.status();
  EXPECT_EQ(lines_of(*csv)[0], "job,metric,unit,a,\"b,>\",ratio");
  EXPECT_EQ(line_with(*csv, "gpt,downtime_s"), "gpt,downtime_s,s,20,0.1,0.005");
  EXPECT_EQ(line_with(*csv, "gpt,phase_verify_s"), "gpt,phase_verify_s,s,0,0,");
}

TEST(Compare, JsonHasTheSame) {
  const auto text = compare_summaries({{"a", example_json()}, {"b", changed("/jobs/0/downtime_s", 50)}}, "json");
  ASSERT_TRUE(text.ok()) << text.status();
  const Json json = Json::parse(*text);
  EXPECT_EQ(json["same_scenario"], true);
  EXPECT_EQ(json["runs"][1]["label"], "b");
  EXPECT_EQ(json["runs"][0]["strategy"], "reshard");
  const Json& row = json["rows"][4];
  EXPECT_EQ(row.dump(), R"({"job":"gpt","metric":"downtime_s","unit":"s","values":[20.0,50.0],"ratio":2.5})");
}

TEST(SummaryTable, ExactlyOnceSaysWhatDropLastLeavesOut) {
  scenario::Scenario scenario = testing::example_scenario();
  scenario.jobs[0].dataset = scenario::DatasetSpec{.state = {.samples = 500, .drop_last = true, .global_batch = 32}};
  control::RunReport report = testing::example_report(scenario);
  report.jobs[0].dataset = control::DatasetRecord{.samples = 500, .samples_read = 480, .exactly_once = true};
  EXPECT_THAT(summary_table(summary_json(report)),
              HasSubstr("; exactly once, but for the short batch that each pass leaves out (drop_last)\n"));
}

TEST(Compare, WhatCannotBeComparedIsRefused) {
  const auto message = [](const Runs& runs, const std::string& format) {
    return message_of(compare_summaries(runs, format).status());
  };
  EXPECT_THAT(message({}, "table"), HasSubstr("nothing to compare"));
  EXPECT_THAT(message({{"a", example_json()}, {"out/b", "{\"jobs\":"}}, "table"),
              HasSubstr("out/b: not a summary.json"));
  EXPECT_THAT(message({{"a", example_json()}}, "xml"),
              HasSubstr("unknown format \"xml\"; one of table, markdown, csv, json"));
}

}  // namespace report_table_test
}  // namespace scalai::report
