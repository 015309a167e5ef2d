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

// Boxes cut for a byte would be hundreds of millions. In little memory, so that a plan of them ends here and not the
// machine.
TEST_F(PlanCap, ATinyCapIsKeptWithoutCutsOrRefusedWithOneThatWorks) {
  const auto plan = [&](const std::string& words) {
    return shell(fmt::format("ulimit -v 3000000; '{}/scalai' plan --model=gpt2 {}", kPrograms.string(), words));
  };
  // Devices that only receive have room for all of it.
  const Outcome grown = plan("--from=dp2 --to=dp4 --memory-cap=1B --format=json");
  ASSERT_EQ(grown.code, 0) << grown.err;
  EXPECT_EQ(nlohmann::json::parse(grown.out)["memory_cap_bytes"], 1);
  const std::string swap = "--from=tp2 --to=tp2 --devices=1,0 --placement=identity --memory-cap=";
  const std::string before = "the smallest cap found to work is ";
  for (const char* cap : {"1B", "100B", "10kB"}) {
    const Outcome refused = plan(swap + cap);
    EXPECT_EQ(refused.code, 3) << cap << refused.out;
    const size_t at = refused.err.find(before);
    ASSERT_NE(at, std::string::npos) << cap << refused.err;
    const int64_t least = std::stoll(refused.err.substr(at + before.size()));
    EXPECT_GT(least, 10'000);
    if (std::string(cap) == "1B") {
      EXPECT_EQ(plan(swap + std::to_string(least) + "B").code, 0);
    }
  }
}

TEST_F(PlanCap, WithoutACapSaysNothingOfPaging) {
  EXPECT_FALSE(has(small("--from=tp2 --to=dp2").out, "page"));
  EXPECT_FALSE(nlohmann::json::parse(small("--from=tp2 --to=dp2 --format=json").out).contains("memory_cap"));
}

}  // namespace
}  // namespace scalai::testing
