#include "executor/bench/measurement.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace scalai::executor::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::DoubleEq;
using ::testing::HasSubstr;

Measurement example() {
  return {.name = "row-column",
          .devices = 4,
          .transport = "shared-memory",
          .state_bytes = 8'000'000'000,
          .moved_bytes = 6'000'000'000,
          .busiest_bytes = 1'500'000'000,
          .busiest_received = 1'500'000'000,
          .prepare_s = 0.25,
          .first_s = 9,
          .transfer_s = {4, 1, 2},
          .errors = 3,
          .yardsticks = {{"memcpy", 0.5}, {"MPI_Alltoallw", 2.5}}};
}

TEST(Measurement, OfNoTimeIsZero) { EXPECT_THAT(Measurement{}.seconds(), DoubleEq(0)); }

TEST(Measurement, BandwidthsAndRatiosFollowFromTheMedian) {
  const Measurement one = example();
  EXPECT_THAT(one.seconds(), DoubleEq(2));
  EXPECT_THAT(one.algorithm_bytes_per_s(), DoubleEq(4e9));
  EXPECT_THAT(one.bus_bytes_per_s(), DoubleEq(0.75e9));
  EXPECT_THAT(one.ratio(one.yardsticks[0]), DoubleEq(4));
  EXPECT_THAT(one.ratio(one.yardsticks[1]), DoubleEq(0.8));
}

TEST(Measurement, WithoutTimesNothingIsInfinite) {
  const Measurement nothing{.state_bytes = 1, .busiest_bytes = 1, .yardsticks = {{"memcpy", 0}}};
  EXPECT_THAT(nothing.algorithm_bytes_per_s(), DoubleEq(0));
  EXPECT_THAT(nothing.bus_bytes_per_s(), DoubleEq(0));
  EXPECT_THAT(nothing.ratio(nothing.yardsticks[0]), DoubleEq(0));
}

TEST(Table, HasARowAYardstick) {
  Measurement alone = example();
  alone.name = "alone";
  alone.yardsticks.clear();
  const std::string text = table_text({example(), alone});
  EXPECT_THAT(text, ContainsRegex("row-column +4 +8.00 GB +6.00 GB +2000.0 +4.00 +0.75 +memcpy +500.0 +4.00 +3\n"));
  EXPECT_THAT(text, ContainsRegex("row-column +4 .* MPI_Alltoallw +2500.0 +0.80 +3\n"));
  EXPECT_THAT(text, ContainsRegex("alone +4 .* none +- +- +3\n"));
  EXPECT_THAT(text, HasSubstr("bus GB/s"));
}

TEST(Json, SaysTheSame) {
  const nlohmann::json report = nlohmann::json::parse(json_text({example()}));
  EXPECT_EQ(report.at("schema_version"), 1);
  const nlohmann::json& one = report.at("measurements").at(0);
  EXPECT_EQ(one.at("case"), "row-column");
  EXPECT_EQ(one.at("devices"), 4);
  EXPECT_EQ(one.at("state_bytes"), 8'000'000'000);
  EXPECT_EQ(one.at("seconds"), 2.0);
  EXPECT_EQ(one.at("seconds_each").size(), 3u);
  EXPECT_EQ(one.at("algorithm_bytes_per_s"), 4e9);
  EXPECT_EQ(one.at("errors"), 3);
  EXPECT_EQ(one.at("yardsticks").at(1).at("name"), "MPI_Alltoallw");
  EXPECT_EQ(one.at("yardsticks").at(1).at("ratio"), 0.8);
  EXPECT_TRUE(nlohmann::json::parse(json_text({})).at("measurements").empty());
}

}  // namespace
}  // namespace scalai::executor::bench
