// `scalai accuracy model` as its users run it.

#include <cmath>

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace accuracy_model_test {

using nlohmann::json;
using namespace scalai::testing;

constexpr const char* kModels =
    "# kind: models\n# title: m\n# source: s\n# goal: exact\nmodel,params,layers,hidden,heads,vocab,sequence\n"
    "small,1.7,24,2304,24,51200,2048\n";
constexpr const char* kSteps =
    "# kind: step\n# title: Two steps\n# source: nowhere\n# assumed: little\n# goal: mape<=1\n"
    "# default: model=small gpu=a100-80g nic_gbps=200 sequence=2048 batch=512 unit=s\n"
    "label,gpus,published,fitted\nfirst,8,20,1\nsecond,16,100,0\n";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class AccuracyModel : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    write_all(folder_ / "models.csv", kModels);
    write_all(folder_ / "steps.csv", kSteps);
  }
  Outcome run(const std::string& words) const { return scalai("accuracy model " + words); }
  Outcome mine(const std::string& words) const { return run("--published=" + folder_.string() + " " + words); }
};

TEST_F(AccuracyModel, OverviewOfTheBuiltInTables) {
  const Outcome outcome = run("");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  for (const char* part : {"ptdp_table1", "korthikanti_fig1", "nemo_2407", "constant MFU", "Not modelled:",
                           "Rows that constants were fitted on:", "held out", "dense A100 16-bit", "experts"}) {
    EXPECT_TRUE(has(outcome.out, part)) << part;
  }
  EXPECT_FALSE(has(outcome.out, "529.6B"));  // rows are for --rows and --table
}

TEST_F(AccuracyModel, RowsOfATableWithSourceAndMarks) {
  const Outcome outcome = mine("--table=steps");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part : {"steps: Two steps", "source: nowhere", "assumed: little", "first", "fitted", "second",
                           "predicted: 1 row", "fitted: 1 row", "goals: mape<=1: missed"}) {
    EXPECT_TRUE(has(outcome.out, part)) << part << "\n" << outcome.out;
  }
}

TEST_F(AccuracyModel, CheckFailsWhenAGoalIsMissed) {
  EXPECT_EQ(mine("--require-goals").code, 1);
  EXPECT_EQ(mine("--require-goals --table=models").code, 0);
  EXPECT_EQ(mine("").code, 0);
}

TEST_F(AccuracyModel, JsonSaysWhatTheTableSays) {
  const Outcome outcome = mine("--format=json");
  const json all = json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(all.contains("tables")) << outcome.out << outcome.err;
  ASSERT_EQ(all["tables"].size(), 2U);
  const json& steps = all["tables"][1];
  EXPECT_EQ(steps["table"], "steps");
  ASSERT_EQ(steps["rows"].size(), 2U);
  EXPECT_EQ(steps["rows"][0]["mark"], "fitted");
  EXPECT_EQ(steps["rows"][1]["mark"], "held out");  // the XXH3 digest of "steps/second" is even
  ASSERT_EQ(all["groups"].size(), 1U);
  EXPECT_EQ(all["groups"][0]["fit"]["rows"], 0);
  EXPECT_EQ(all["groups"][0]["held_out"]["rows"], 1);
  EXPECT_NEAR(all["groups"][0]["held_out"]["mape"], std::abs(steps["rows"][1]["error"].get<double>()), 1e-9);
  const double predicted = steps["rows"][1]["predicted"];
  EXPECT_NEAR(steps["rows"][1]["error"], predicted / 100 - 1, 1e-9);
  EXPECT_NEAR(steps["rows"][1]["constant_mfu_error"], 10.0 / 100 - 1, 1e-9);  // half of the fitted row's 20 s
  EXPECT_EQ(steps["predicted"]["rows"], 1);
  EXPECT_EQ(steps["goals"][0]["met"], false);
}

TEST_F(AccuracyModel, CsvHasALineARow) {
  const Outcome outcome = mine("--format=csv");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 4);  // header, a model, two steps
  EXPECT_TRUE(has(outcome.out, "steps,second,100,")) << outcome.out;
}

TEST_F(AccuracyModel, BadTablesAreRefusedWithAllProblems) {
  write_all(folder_ / "steps.csv", std::string(kSteps) + "third,sixteen,x,0\n");
  const Outcome outcome = mine("");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, "steps.csv:10:7: error: \"sixteen\" is not a count")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "steps.csv:10:15: error: \"x\" is not a number")) << outcome.err;
}

TEST_F(AccuracyModel, UnknownTableAndFolder) {
  const Outcome unknown = mine("--table=step,models,x");
  EXPECT_EQ(unknown.code, 3);
  EXPECT_TRUE(has(unknown.err, "no table \"step\"; did you mean \"steps\"?")) << unknown.err;
  EXPECT_TRUE(has(unknown.err, "no table \"x\"; there are models, steps")) << unknown.err;
  const Outcome nowhere = run("--published=" + folder_.string() + "/none");
  EXPECT_EQ(nowhere.code, 4);
  EXPECT_TRUE(has(nowhere.err, "none: ")) << nowhere.err;
}

}  // namespace accuracy_model_test
