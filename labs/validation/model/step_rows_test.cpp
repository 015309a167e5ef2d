#include "labs/validation/model/step_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "labs/validation/model/testing/support.h"
#include "labs/validation/model/units.h"

namespace scalai::step::validation {
namespace step_rows_test {

using ::testing::HasSubstr;

constexpr const char* kRun = "model=gpt gpu=a100-80g nic_gbps=200 gpus=16 tp=2 batch=64 sequence=2048 ";

RowResult step_of(const std::string& cells) {
  OneRow row(kRun + cells);
  RowReader reader = row.reader();
  RowResult result = step_result(reader, models());
  EXPECT_TRUE(row.ok()) << row.said();
  return result;
}

TEST(StepRows, WhatIsHeldOutFollowsFromTheName) {
  const auto held_out = [](const std::string& table, int row) {
    return PublishedTable{.name = table}.held_out("row " + std::to_string(row));
  };
  int out = 0, differ = 0;  // the table counts as well
  for (int i = 0; i < 1000; ++i) out += held_out("table", i) ? 1 : 0;
  for (int i = 0; i < 100; ++i) differ += held_out("a", i) != held_out("b", i) ? 1 : 0;
  EXPECT_NEAR(out, 500, 60);  // about half: within four standard deviations
  EXPECT_GT(differ, 20);
  EXPECT_TRUE(PublishedTable{.name = "steps"}.held_out("second"));
  EXPECT_FALSE(step_of("published=2 unit=s fitted=1").held_out);  // a fitted row judges nothing
}

TEST(StepRows, RowsOfASourceStandOrFallTogether) {
  const auto held_out = [](const std::string& source, int row) {
    PublishedTable table{.name = "t" + std::to_string(row % 7), .header = {{"split", "source"}, {"source", source}}};
    return table.held_out("row " + std::to_string(row));
  };
  int out = 0;
  for (int source = 0; source < 100; ++source) {
    const std::string name = "github.com/a/" + std::to_string(source);
    const bool first = held_out(name + ", page", 0);
    out += first ? 1 : 0;
    for (int row = 0; row < 20; ++row) EXPECT_EQ(held_out(name + ": another page", row), first) << name;
  }
  EXPECT_NEAR(out, 50, 20);
}

TEST(StepRows, RowsAreJudgedByGpuAndProducts) {
  EXPECT_EQ(step_of("published=2 unit=s").group, "dense A100 16-bit");
  const auto group_of = [](const std::string& cells) {
    OneRow row("model=gpt nic_gbps=400 gpus=16 tp=2 batch=64 sequence=2048 published=2 unit=s " + cells);
    RowReader reader = row.reader();
    return step_result(reader, models()).group;
  };
  EXPECT_EQ(group_of("gpu=h100-80g"), "dense H100 16-bit");
  EXPECT_EQ(group_of("gpu=h100-80g precision=fp8"), "dense H100 FP8");
  EXPECT_EQ(group_of("gpu=v100-32g precision=fp16"), "other GPUs");
}

RowResult converted(const std::string& cells) {
  OneRow row(kRun + cells);
  RowReader reader = row.reader();
  RowResult result = arithmetic_result(reader, models());
  EXPECT_TRUE(row.ok()) << row.said();
  return result;
}

TEST(StepRows, ErrorIsOfTheTimeWhateverTheUnit) {
  const RowResult seconds = step_of("published=1.5 unit=s");
  EXPECT_NEAR(seconds.error, seconds.predicted / 1.5 - 1, 1e-12);
  EXPECT_DOUBLE_EQ(seconds.published_s, 1.5);
  EXPECT_DOUBLE_EQ(seconds.predicted_s, seconds.predicted);
  const RowResult rate = step_of("published=5461.3333333333 unit=tokens_s_gpu");  // 64 · 2048 / 16 / 1.5
  EXPECT_NEAR(rate.error, seconds.error, 1e-9);
  EXPECT_NEAR(rate.predicted, 64.0 * 2048 / 16 / seconds.predicted, 1e-6);
}

TEST(StepRows, RanksByUseOfThePeak) {
  const RowResult result = step_of("published=40 unit=mfu_pct fitted=1");
  EXPECT_TRUE(result.fitted);
  EXPECT_NEAR(result.rank_published, 0.40, 1e-12);
  EXPECT_NEAR(result.rank_predicted, result.predicted / 100, 1e-12);
  EXPECT_EQ(result.machine, "a100-80g 16-bit");
  EXPECT_EQ(step_of("published=40 unit=mfu_pct precision=fp8").machine, "a100-80g fp8");
}

TEST(StepRows, WhatCannotBeKeepsItsPlace) {
  const RowResult result = step_of("published=1 unit=s micro_batch=7");
  EXPECT_NE(result.problem, "");
  EXPECT_DOUBLE_EQ(result.published_s, 1);
}

TEST(StepRows, Problems) {
  OneRow row(std::string(kRun) + "published=0 unit=hours");
  RowReader reader = row.reader();
  step_result(reader, models());
  EXPECT_THAT(row.said(), HasSubstr("unknown unit \"hours\""));
  OneRow days(std::string(kRun) + "published=3 unit=days");
  RowReader second = days.reader();
  step_result(second, models());
  EXPECT_THAT(days.said(), HasSubstr("needed for this unit"));
  OneRow zero(std::string(kRun) + "published=0 unit=s");
  RowReader third = zero.reader();
  step_result(third, models());
  EXPECT_THAT(zero.said(), HasSubstr("must be more than 0"));
}

TEST(ArithmeticRows, ExactWithinWhatTheGivenDigitsLeaveOpen) {
  // 137 TFLOP/s of 312 are 43.91 %.
  const std::string given = "recompute=full given=137 given_unit=tflops_hardware unit=hfu_pct published=";
  EXPECT_TRUE(converted(given + "44").exact);
  EXPECT_TRUE(converted(given + "43.9").exact);
  EXPECT_TRUE(converted(given + "44.05").exact);   // 137.4 would give 44.04
  EXPECT_FALSE(converted(given + "44.10").exact);  // 137.5 gives 44.07
  EXPECT_FALSE(converted(given + "45").exact);
  EXPECT_NEAR(converted(given + "44").predicted, 43.91, 0.005);
}

TEST(ArithmeticRows, LengthsAndRates) {
  const RowResult result = converted("given=1.50 given_unit=s published=5461 unit=tokens_s_gpu");
  EXPECT_NEAR(result.predicted, 5461.33, 0.01);
  EXPECT_TRUE(result.exact);
  EXPECT_EQ(result.assumed, "from 1.50 s");
  EXPECT_FALSE(converted("given=1.50 given_unit=s published=5490 unit=tokens_s_gpu").exact);
}

TEST(ArithmeticRows, Problems) {
  OneRow row(std::string(kRun) + "given=0 given_unit=s published=1 unit=s");
  RowReader reader = row.reader();
  arithmetic_result(reader, models());
  EXPECT_THAT(row.said(), HasSubstr("must be more than 0"));
}

}  // namespace step_rows_test
}  // namespace scalai::step::validation
