#include "labs/validation/model/pause_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "labs/validation/model/testing/support.h"

namespace scalai::step::validation {
namespace pause_rows_test {

using ::testing::HasSubstr;

RowResult result_of(const std::string& cells) {
  OneRow row(cells);
  RowReader reader = row.reader();
  RowResult result = pause_result(reader);
  EXPECT_EQ(row.said(), "");
  return result;
}

std::string problem_of(const std::string& cells) {
  OneRow row(cells);
  RowReader reader = row.reader();
  pause_result(reader);
  return row.said();
}

TEST(PauseRows, AreWhatTheStackSays) {
  // 445.7 s at 2,048 GPUs, 103.2 s more at twice as many.
  const RowResult restart = result_of("quantity=restart stack=stock-2025 gpus=4096 published=545");
  EXPECT_NEAR(restart.predicted, 445.7 + 103.2, 1e-9);
  EXPECT_NEAR(restart.error, 548.9 / 545 - 1, 1e-9);
  EXPECT_EQ(restart.group, "restart");
  EXPECT_TRUE(restart.held_out);
  // Eight clients of the store, a first communicator, a ring of seven steps, pairs of ranks.
  const RowResult one = result_of("quantity=communicator stack=stock-2025 gpus=8 published=2.46 fitted=1");
  const double rest_s = 8 * 1.02e-3 + 0.03 + 3 * 7 * 0.15e-3 + 64 * 7.24e-9;
  EXPECT_NEAR(one.predicted, 0.13 + 0.05 + rest_s, 1e-9);
  const auto predicted = [](const std::string& cells) {
    return result_of("quantity=communicator stack=stock-2025 gpus=8 published=2.46 " + cells).predicted;
  };
  EXPECT_NEAR(predicted("gpu=h100-80g"), 0.13 + 0.05 + 8 * 0.22 + rest_s, 1e-9);
  EXPECT_NEAR(predicted("gpu=h100-80g later=1"), rest_s, 1e-9);
  EXPECT_NEAR(predicted("gpus_per_host=4"), 0.13 + 0.05 + 0.2 + rest_s, 1e-9);
  EXPECT_NEAR(predicted("gpus_per_host=4 connected=0"), one.predicted, 1e-9);
  EXPECT_FALSE(one.held_out);
  EXPECT_GT(result_of("quantity=initialisation stack=stock-2025 gpus=16 tp=8 published=8").predicted,
            2 * one.predicted);
}

TEST(PauseRows, Problems) {
  EXPECT_THAT(problem_of("quantity=restart stack=stock gpus=8 published=1"), HasSubstr("unknown stack \"stock\""));
  EXPECT_THAT(problem_of("quantity=reboot stack=tuned gpus=8 published=1"), HasSubstr("unknown quantity \"reboot\""));
  EXPECT_THAT(problem_of("quantity=restart stack=tuned gpus=8 tp=3 published=1"), HasSubstr("that tp and pp divide"));
  EXPECT_THAT(problem_of("quantity=restart stack=tuned gpus=8 published=0"), HasSubstr("must be more than 0"));
}

}  // namespace pause_rows_test
}  // namespace scalai::step::validation
