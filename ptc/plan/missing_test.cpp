#include "ptc/plan/missing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/plan/plan_draft.h"

namespace scalai::plan {
namespace missing_test {

using tensor::Box;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One box [0:4] of 4 B elements of each name.
Plan plan_without(const std::vector<std::string>& names) {
  PlanDraft plan;
  for (const std::string& name : names) {
    plan.tensors.push_back({.name = name, .shape = {4}});
    plan.missing.push_back({TensorId(static_cast<int32_t>(plan.tensors.size() - 1)), Box({0}, {4})});
  }
  return seal(std::move(plan));
}

TEST(Missing, FewBoxesAreNamed) {
  const Plan plan = plan_without({"embedding.weight", "layers.3.w"});
  EXPECT_EQ(missing_bytes(plan), 32);
  EXPECT_THAT(missing_lines(plan, 2), ElementsAre("tensor \"embedding.weight\" box [0:4] has no surviving holder",
                                                  "tensor \"layers.3.w\" box [0:4] has no surviving holder"));
  EXPECT_THAT(missing_lines(plan_without({}), 2), IsEmpty());
}

// Layers in a row are one line, layer 7 is another; parts without a number are by their first word.
TEST(Missing, ManyAreByLayersAndKind) {
  const Plan plan =
      plan_without({"embedding.word.weight", "embedding.position.weight", "layers.2.w", "layers.2.w.master",
                    "layers.3.w", "layers.3.w.exp_avg", "layers.7.w.previous", "decoder.layers.0.w", "head.weight"});
  EXPECT_THAT(
      missing_lines(plan, 2),
      ElementsAre(
          "embedding: 2 boxes of param, 32 B, the first of them tensor \"embedding.word.weight\" box [0:4]",
          "layers 2 to 3: 4 boxes of param, master, exp_avg, 64 B, the first of them tensor \"layers.2.w\" box [0:4]",
          "layers 7: 1 box of previous, 16 B, the first of them tensor \"layers.7.w.previous\" box [0:4]",
          "decoder.layers 0: 1 box of param, 16 B, the first of them tensor \"decoder.layers.0.w\" box [0:4]",
          "head: 1 box of param, 16 B, the first of them tensor \"head.weight\" box [0:4]"));
}

}  // namespace missing_test
}  // namespace scalai::plan
