#include "labs/validation/model/goals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace scalai::step::validation {
namespace {

using ::testing::HasSubstr;

TableResult result_with(const std::string& goals) {
  TableResult result;
  result.table.header["goal"] = goals;
  result.predicted = {.count = 2, .mape = 0.05, .largest = -0.081, .bias = -0.01};
  result.tau = 0.6;
  return result;
}

RowResult ranked(double published, double predicted) {
  RowResult row;
  row.published_text = "1";
  row.rank_published = published;
  row.rank_predicted = predicted;
  return row;
}

bool met(const std::string& goal, const TableResult& result) {
  TableResult asked = result;
  asked.table.header["goal"] = goal;
  const std::vector<Goal> goals = goals_of(asked);
  EXPECT_EQ(goals.size(), 1U);
  EXPECT_EQ(goals.front().text, goal);
  return goals.front().met;
}

TEST(Goals, LimitsAreInPercent) {
  const TableResult result = result_with("");
  EXPECT_TRUE(met("mape<=5", result));
  EXPECT_FALSE(met("mape<=4.9", result));
  EXPECT_TRUE(met("max<=8.1", result));
  EXPECT_FALSE(met("max<=8", result));
  EXPECT_TRUE(met("tau>=0.6", result));
  EXPECT_FALSE(met("tau>=0.61", result));
}

TEST(Goals, LimitsOfPercentagesAreInPoints) {
  TableResult result = result_with("max<=2");
  result.percentages = true;
  result.predicted.largest = 1.9;
  EXPECT_TRUE(goals_of(result).front().met);
  EXPECT_THAT(goals_of(result).front().said, HasSubstr("1.9 points"));
  result.predicted.largest = -2.1;
  EXPECT_FALSE(goals_of(result).front().met);
}

TEST(Goals, OrderLooksAtPredictedRowsOnly) {
  TableResult result = result_with("");
  result.rows = {ranked(1, 1), ranked(2, 2), ranked(3, 1.5)};
  EXPECT_FALSE(met("order", result));
  result.rows[2].fitted = true;
  EXPECT_TRUE(met("order", result));
}

TEST(Goals, ExactCountsRowsThatPrintSomething) {
  TableResult result = result_with("");
  result.rows = {ranked(1, 1), ranked(1, 1), ranked(1, 1)};
  result.rows[2].published_text.clear();
  result.exact = 1;
  EXPECT_FALSE(met("exact", result));
  result.exact = 2;
  EXPECT_TRUE(met("exact", result));
}

TEST(Goals, ARowWithoutPredictionMissesAll) {
  TableResult result = result_with("mape<=50 max<=50");
  result.missing = 1;
  for (const Goal& goal : goals_of(result)) {
    EXPECT_FALSE(goal.met);
    EXPECT_THAT(goal.said, HasSubstr("1 rows without prediction"));
  }
}

TEST(Goals, NoTauMissesItsGoal) {
  TableResult result = result_with("");
  result.tau.reset();
  EXPECT_FALSE(met("tau>=-1", result));
}

TEST(Goals, UnknownWordsAreProblems) {
  PublishedTable table;
  table.header["goal"] = "mape<=8 mape<8 nearly max<= order exact tau>=0.5";
  table.header_at["goal"] = {3, 1, 10};
  Diagnostics problems("t.csv", "a\nb\nc\n");
  check_goals(table, problems);
  ASSERT_EQ(problems.problems().size(), 3U) << problems.render();
  EXPECT_THAT(problems.render(), HasSubstr("t.csv:3:1: error: \"mape<8\" is no goal"));
  EXPECT_THAT(problems.render(), HasSubstr("\"nearly\" is no goal"));
  EXPECT_THAT(problems.render(), HasSubstr("\"max<=\" is no goal"));
}

}  // namespace
}  // namespace scalai::step::validation
