// `scalai plan --memory-cap`: what it pages, and what any order of whole boxes would.
#include <gtest/gtest.h>

#include "apps/plan/testing/plan.h"
#include "nlohmann/json.hpp"

namespace scalai::testing {
namespace {

class PlanCap : public PlanProgram {};

TEST_F(PlanCap, OfASwapNamesWhatWholeBoxesWouldPage) {
  const std::string swap = "--from=tp2 --to=tp2 --devices=1,0 --placement=identity ";
  const Outcome text = small(swap + "--memory-cap=64KiB");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(has(text.out, "paged through hosts 0 B, the least there is; moved twice 0 B")) << text.out;
  EXPECT_TRUE(has(text.out, "any order pages at least")) << text.out;
  EXPECT_TRUE(has(text.out, "(largest box)")) << text.out;
  const auto json = nlohmann::json::parse(small(swap + "--memory-cap=64KiB --format=json").out);
  const auto& cap = json["memory_cap"];
  EXPECT_EQ(cap["paged_bytes"], 0);
  EXPECT_EQ(cap["repeated_bytes"], 0);
  EXPECT_GT(cap["whole_boxes"]["paged_bytes_at_least"], 0);
  EXPECT_EQ(cap["whole_boxes"]["by"], "largest box");
}

TEST_F(PlanCap, SaysWhereTheBoundSaysNothing) {
  const Outcome text = small("--from=tp2 --to=dp2 --memory-cap=2MiB");
  EXPECT_TRUE(has(text.out, "at least 0 B (this bound says nothing here)")) << text.out;
  const auto json = nlohmann::json::parse(small("--from=tp2 --to=dp2 --memory-cap=2MiB --format=json").out);
  EXPECT_EQ(json["memory_cap"]["whole_boxes"]["paged_bytes_at_least"], 0);
  EXPECT_FALSE(json["memory_cap"]["whole_boxes"].contains("by"));
}

TEST_F(PlanCap, WithoutACapSaysNothingOfPaging) {
  EXPECT_FALSE(has(small("--from=tp2 --to=dp2").out, "page"));
  EXPECT_FALSE(nlohmann::json::parse(small("--from=tp2 --to=dp2 --format=json").out).contains("memory_cap"));
}

}  // namespace
}  // namespace scalai::testing
