#include "labs/validation/model/memory_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "labs/validation/model/testing/support.h"

namespace scalai::step::validation {
namespace {

using ::testing::HasSubstr;

// 22 billion parameters over tp 8, micro-batch 4 (Korthikanti et al. 2022, Table 3).
constexpr const char* kRun =
    "model=gpt-22b gpu=a100-80g nic_gbps=200 gpus=8 tp=8 batch=4 micro_batch=4 sequence=2048 flash=0 "
    "sequence_parallel=0 ";

RowResult memory_of_row(const std::string& cells) {
  OneRow row(kRun + cells);
  RowReader reader = row.reader();
  RowResult result = memory_result(reader, models());
  EXPECT_TRUE(row.ok()) << row.said();
  return result;
}

TEST(MemoryRows, StateIsEighteenBytesAParameter) {
  const RowResult result = memory_of_row("quantity=state published=46");
  const double params = static_cast<double>(models().at("gpt-22b").parameters());
  EXPECT_NEAR(result.predicted, 18 * params / 8 / (1 << 30), 0.01 * result.predicted);
  EXPECT_NEAR(result.error, result.predicted / 46 - 1, 1e-12);
  EXPECT_EQ(result.unit, "GiB");
}

// Table "t", row "row": the fit half. A row of a table whose digest is even is in the other one.
TEST(MemoryRows, AreHeldOutByTheirNames) {
  EXPECT_EQ(memory_of_row("quantity=state published=46").held_out, PublishedTable{.name = "t"}.held_out("row"));
  const std::string text = "# kind: memory\n# title: t\n# source: s\n# default: " + std::string(kRun) +
                           "quantity=state published=46\nlabel\na\nb\nc\nd\ne\nf\n";
  Diagnostics problems("t.csv", text);
  const PublishedTable table = read_table("t", text, problems);
  int held = 0;
  for (size_t i = 0; i < 6; ++i) {
    RowReader reader(table, i, problems);
    const RowResult result = memory_result(reader, models());
    EXPECT_EQ(result.held_out, table.held_out(result.label)) << result.label;
    held += result.held_out ? 1 : 0;
  }
  EXPECT_GT(held, 0);
}

// 22 billion parameters over 8 GPUs: 46 GiB of state and 59 of activations do not fit 80 GiB, nor would they 90.
TEST(MemoryRows, WhatRanOutOfMemoryIsToBeRefused) {
  const RowResult refused = memory_of_row("quantity=refused published=80");
  EXPECT_TRUE(refused.exact);
  EXPECT_EQ(refused.error, 0);
  EXPECT_EQ(refused.group, "memory, refused");
  const RowResult accepted = memory_of_row("quantity=refused published=120");
  EXPECT_FALSE(accepted.exact);
  EXPECT_NEAR(accepted.error, accepted.predicted / (120 * 1.081) - 1, 1e-12);
  // What fits on paper and is within the error of peaks is accepted, and so a row that is missed.
  EXPECT_FALSE(memory_of_row("quantity=refused published=" + std::to_string(refused.predicted / 1.05)).exact);
}

TEST(MemoryRows, ActivationsOfAllLayers) {
  // 48 layers · s·b·h·(10 + 24/t + 5as/(ht)) bytes.
  const double bytes = 48 * 2048.0 * 4 * 6144 * (10 + 24 / 8.0 + 5 * 64 * 2048 / (6144 * 8.0));
  const RowResult result = memory_of_row("quantity=activations published=59.25");
  EXPECT_NEAR(result.predicted, bytes / (1 << 30), 1e-6);
  EXPECT_TRUE(result.exact);
}

// What nvidia-smi sees has the context and a communicator each of the world, a replica and tp; what the allocator
// reserves has 8 % of all but the state.
TEST(MemoryRows, PeaksAreAllocatedReservedOrSeenFromOutside) {
  const double allocated = memory_of_row("quantity=allocated published=60").predicted;
  const double reserved = memory_of_row("quantity=reserved published=60").predicted;
  const double peak = memory_of_row("quantity=peak published=60").predicted;
  EXPECT_NEAR(peak - reserved, (640 + 3 * 256) / 1024.0, 1e-9);
  EXPECT_GT(reserved, 1.02 * allocated);
  EXPECT_LT(reserved, 1.08 * allocated);
  const RowResult decimal = memory_of_row("quantity=allocated unit=GB published=60");
  EXPECT_NEAR(decimal.predicted, allocated * 1.073741824, 1e-9);
  EXPECT_EQ(decimal.unit, "GB");
  EXPECT_EQ(decimal.group, "memory, peak");
}

TEST(MemoryRows, RatioIsOfTheRunWithoutTechniques) {
  OneRow row(std::string(kRun) + "quantity=activations published=49.42 recompute=selective");
  RowReader reader = row.reader();
  const RowResult result = ratio_result(reader, models());
  ASSERT_TRUE(row.ok()) << row.said();
  // (10 + 24/t) / (10 + 24/t + 5as/(ht)).
  const double whole = 13 + 5 * 64 * 2048 / (6144 * 8.0);
  EXPECT_NEAR(result.predicted, 100 * 13 / whole, 1e-9);
  EXPECT_NEAR(result.error, result.predicted - 49.42, 1e-12);  // points
  EXPECT_EQ(result.unit, "%");
}

TEST(MemoryRows, Problems) {
  OneRow row(std::string(kRun) + "quantity=all published=0");
  RowReader reader = row.reader();
  memory_result(reader, models());
  EXPECT_THAT(row.said(), HasSubstr("must be more than 0"));
  OneRow other(std::string(kRun) + "quantity=all published=1");
  RowReader second = other.reader();
  ratio_result(second, models());
  EXPECT_THAT(other.said(), HasSubstr("unknown quantity \"all\""));
}

TEST(MemoryRows, WhatCannotBeStaysWithoutPrediction) {
  OneRow row("model=gpt-22b gpu=a100-80g nic_gbps=200 gpus=7 tp=7 batch=4 sequence=2048 quantity=state published=1");
  RowReader reader = row.reader();
  const RowResult result = memory_result(reader, models());
  EXPECT_TRUE(row.ok()) << row.said();
  EXPECT_THAT(result.problem, HasSubstr("tp7"));
}

}  // namespace
}  // namespace scalai::step::validation
