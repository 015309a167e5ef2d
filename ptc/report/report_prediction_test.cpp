#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ptc/base/status.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ReconfigurationSummary change(int64_t index, double transfer_s) {
  ReconfigurationSummary change;
  change.index = index;
  change.from = "tp2";
  change.to = "tp4";
  change.completed = true;
  change.plan_digest = "abc";
  change.bytes.cross_host = 1000;
  change.phases_s.transfer = transfer_s;
  return change;
}

// One job whose reconfigurations take so long to transfer.
Summary run_of(const std::string& runtime, const std::vector<double>& transfer_s) {
  Summary run;
  run.scenario_digest = "0123";
  run.strategy = "reshard";
  run.runtime = runtime;
  run.jobs.resize(1);
  run.jobs[0].name = "gpt";
  for (const double seconds : transfer_s)
    run.jobs[0].reconfigurations.push_back(
        change(static_cast<int64_t>(run.jobs[0].reconfigurations.size()) + 1, seconds));
  return run;
}

PhasePrediction phase_of(const PredictedChange& change, const std::string& name) {
  for (const PhasePrediction& phase : change.phases) {
    if (phase.phase == name) return phase;
  }
  ADD_FAILURE() << "no phase " << name;
  return {};
}

TEST(Prediction, IsForOneSimulatedAndOneExecutedRunOfTheSame) {
  const Summary sim = run_of("sim", {1}), exec = run_of("exec", {1});
  EXPECT_TRUE(prediction_of({sim, exec}));
  EXPECT_TRUE(prediction_of({exec, sim}));
  EXPECT_FALSE(prediction_of({sim}));
  EXPECT_FALSE(prediction_of({sim, sim}));
  EXPECT_FALSE(prediction_of({exec, exec}));
  EXPECT_FALSE(prediction_of({sim, exec, exec}));
  Summary other = exec;
  other.scenario_digest = "4567";
  EXPECT_FALSE(prediction_of({sim, other}));
  other = exec;
  other.seed = 7;
  EXPECT_FALSE(prediction_of({sim, other}));
  other = exec;
  other.strategy = "tenplex";
  EXPECT_FALSE(prediction_of({sim, other}));
}

TEST(Prediction, HasTheStepsThatRealTrainingMeasured) {
  const Summary sim = run_of("sim", {1});
  Summary exec = run_of("exec", {1});
  exec.jobs[0].trained = {{.layout = "tp2", .gpus = 2, .steps = 40, .step_s = 0.5, .scenario_step_s = 0.6}};
  const std::optional<Prediction> prediction = prediction_of({sim, exec});
  ASSERT_TRUE(prediction);
  ASSERT_EQ(prediction->steps.size(), 1U);
  EXPECT_NEAR(prediction->steps[0].error, 0.2, 1e-12);
  EXPECT_THAT(prediction_table(*prediction), HasSubstr("+20.0 %"));
}

TEST(Prediction, ErrorsAreRelativeToWhatWasMeasured) {
  for (const bool swapped : {false, true}) {
    std::vector<Summary> runs = {run_of("sim", {1.5, 2, 8}), run_of("exec", {1, 4, 10})};
    if (swapped) std::swap(runs[0], runs[1]);
    const std::optional<Prediction> prediction = prediction_of(runs);
    ASSERT_TRUE(prediction);
    ASSERT_EQ(prediction->changes.size(), 3U);
    EXPECT_DOUBLE_EQ(*phase_of(prediction->changes[0], "transfer").error, 0.5);
    EXPECT_DOUBLE_EQ(*phase_of(prediction->changes[1], "transfer").error, -0.5);
    EXPECT_DOUBLE_EQ(*phase_of(prediction->changes[2], "transfer").error, -0.2);
    EXPECT_EQ(prediction->transfers, 3);
    EXPECT_DOUBLE_EQ(*prediction->transfer_error_median, 0.5);
  }
}

TEST(Prediction, TheMedianOfAnEvenNumberLiesBetween) {
  const auto prediction = prediction_of({run_of("sim", {1.1, 1.3}), run_of("exec", {1, 1})});
  EXPECT_NEAR(*prediction->transfer_error_median, 0.2, 1e-12);
}

TEST(Prediction, WhatWorkersDidNothingForIsNotMeasured) {
  Summary sim = run_of("sim", {1}), exec = run_of("exec", {1});
  sim.jobs[0].reconfigurations[0].phases_s.resume = 4;
  exec.jobs[0].reconfigurations[0].phases_s.resume = 3e-8;
  sim.jobs[0].reconfigurations[0].phases_s.plan = 0.1;
  exec.jobs[0].reconfigurations[0].phases_s.plan = 0.05;
  const auto prediction = prediction_of({sim, exec});
  const PhasePrediction resume = phase_of(prediction->changes[0], "resume");
  EXPECT_EQ(resume.predicted_s, 4);
  EXPECT_FALSE(resume.measured_s);
  EXPECT_FALSE(resume.error);
  EXPECT_DOUBLE_EQ(*phase_of(prediction->changes[0], "plan").error, 1);
}

TEST(Prediction, OnlyTheSamePlansThatMoveSomethingCount) {
  Summary sim = run_of("sim", {1, 1, 1, 1, 1}), exec = run_of("exec", {2, 2, 2, 2, 2});
  exec.jobs[0].reconfigurations[0].plan_digest = "another";
  sim.jobs[0].reconfigurations[1].bytes = {};
  sim.jobs[0].reconfigurations[1].bytes.kept = 1000;
  exec.jobs[0].reconfigurations[2].completed = false;
  exec.jobs[0].reconfigurations.pop_back();
  const auto prediction = prediction_of({sim, exec});
  EXPECT_EQ(prediction->changes.size(), 3U);
  EXPECT_FALSE(prediction->changes[0].same_plan);
  EXPECT_TRUE(prediction->changes[1].same_plan);
  EXPECT_EQ(prediction->transfers, 1);
  EXPECT_DOUBLE_EQ(*prediction->transfer_error_median, 0.5);
}

TEST(Prediction, NothingThatMovesIsNoMedian) {
  const auto prediction = prediction_of({run_of("sim", {}), run_of("exec", {})});
  EXPECT_FALSE(prediction->transfer_error_median);
  EXPECT_THAT(prediction_table(*prediction), HasSubstr("median error of transfer: – (no plan"));
}

TEST(Prediction, TheTableSaysAReconfigurationOnceAndAPhaseALine) {
  Summary sim = run_of("sim", {1.1, 2}), exec = run_of("exec", {1, 4});
  sim.jobs[0].reconfigurations[0].phases_s.resume = 4;
  exec.jobs[0].reconfigurations[1].plan_digest = "another";
  EXPECT_EQ(prediction_table(*prediction_of({sim, exec})),
            "job  #  from → to                 phase     predicted      measured    error\n"
            "---  -  ------------------------  --------  ---------  ------------  -------\n"
            "gpt  1  tp2 → tp4                 transfer     1.10 s        1.00 s  +10.0 %\n"
            "                                  resume       4.00 s  not measured        –\n"
            "gpt  2  tp2 → tp4 (another plan)  transfer     2.00 s        4.00 s  -50.0 %\n"
            "median error of transfer: 10.0 % over 1 transfer\n");
}

// ---- as `scalai compare` shows it -----------------------------------------------------------------------------------

std::string example_run(const std::string& runtime, double transfer_s) {
  const scenario::Scenario scenario = testing::example_scenario();
  Json json = Json::parse(summary_json(testing::example_report(scenario)));
  json["runtime"] = runtime;
  json["jobs"][0]["reconfigurations"][0]["phases_s"]["transfer"] = transfer_s;
  return json.dump();
}

TEST(Prediction, FollowsTheComparison) {
  const auto table = compare_summaries({{"a", example_run("sim", 1)}, {"b", example_run("exec", 2)}}, "table");
  ASSERT_TRUE(table.ok()) << message_of(table.status());
  EXPECT_THAT(*table, HasSubstr("pause, total"));
  EXPECT_THAT(*table, HasSubstr("median error of transfer: 50.0 % over 1 transfer\n"));
  const auto two = compare_summaries({{"a", example_run("sim", 1)}, {"b", example_run("sim", 2)}}, "table");
  EXPECT_THAT(*two, Not(HasSubstr("median error")));
}

TEST(Prediction, IsInTheJson) {
  const auto text = compare_summaries({{"a", example_run("sim", 1)}, {"b", example_run("exec", 2)}}, "json");
  ASSERT_TRUE(text.ok()) << message_of(text.status());
  const Json prediction = Json::parse(*text).at("prediction");
  EXPECT_EQ(prediction.at("transfer_error_median"), 0.5);
  EXPECT_EQ(prediction.at("transfers"), 1);
  const Json& change = prediction.at("reconfigurations").at(0);
  EXPECT_EQ(change.at("job"), "gpt");
  std::vector<std::string> phases;
  for (const Json& phase : change.at("phases")) phases.push_back(phase.at("phase"));
  EXPECT_THAT(phases, ElementsAre("stop", "plan", "restart", "prepare", "transfer", "verify", "resume"));
  EXPECT_EQ(change.at("phases")[4].at("measured_s"), 2);
  EXPECT_EQ(change.at("phases")[4].at("error"), -0.5);
  EXPECT_TRUE(change.at("phases")[5].at("measured_s").is_null());
  const auto two = compare_summaries({{"a", example_run("sim", 1)}, {"b", example_run("sim", 2)}}, "json");
  EXPECT_FALSE(Json::parse(*two).contains("prediction"));
}

}  // namespace
}  // namespace scalai::report
