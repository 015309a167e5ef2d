#include "tests/differential/oracle.h"

#include <gmock/gmock.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/set_operations.h"
#include "tests/differential/cases.h"
#include "tests/differential/check.h"

namespace scalai::differential {
namespace {

using plan::Operation;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One tensor of 2 × 3 elements over two ranks.
collection::Collection two_ranks(tensor::Cut cut) {
  cut.axis = "tp";
  return {.name = "two",
          .meshes = {collection::Mesh({{"tp", 2}})},
          .tensors = {{.name = "w", .shape = {2, 3}, .layout = {{cut}}}},
          .device_of_rank = {DeviceId(0), DeviceId(1)}};
}

TEST(Oracle, ReadsLayouts) {
  const auto columns = two_ranks({.dim = 1, .rule = tensor::SplitRule::kCeil});
  EXPECT_THAT(owned(columns, columns.tensors[0], 0), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(owned(columns, columns.tensors[0], 1), ElementsAre(2, 5));
  const auto flat = two_ranks({.dim = tensor::Cut::kFlat, .rule = tensor::SplitRule::kBalanced});
  EXPECT_THAT(owned(flat, flat.tensors[0], 0), ElementsAre(0, 1, 2));
  auto pinned = two_ranks({.dim = 0});
  pinned.tensors[0].pins = {{"tp", {1}}};
  EXPECT_THAT(owned(pinned, pinned.tensors[0], 0), IsEmpty());
  EXPECT_THAT(owned(pinned, pinned.tensors[0], 1), ElementsAre(3, 4, 5));
}

// A few hundred plans, each spoilt in one place. Every one must be found out.
TEST(Oracle, FindsWhatIsWrongWithAPlan) {
  int spoilt = 0;
  for (uint64_t i = 0; i < 400; ++i) {
    DifferentialCase drawn = make_case(seed_of_case(7, i));
    SCOPED_TRACE(drawn.str());
    if (drawn.options.memory_cap >= 0) continue;  // set_operations() gives nothing back early
    Outcome outcome;
    const auto plan = plan_of(drawn, outcome);
    ASSERT_TRUE(plan.ok());
    std::vector<Operation> operations = plan->operations();
    if (operations.empty()) continue;
    ASSERT_EQ(judge(*plan, drawn.input()), "");
    Random random(drawn.seed);
    Operation& victim = operations[static_cast<size_t>(random.below(std::ssize(operations)))];
    switch (i % 4) {
      case 0: std::erase(operations, Operation(victim)); break;
      case 1: operations.push_back(victim); break;
      case 2: victim.dst = DeviceId((victim.dst.value + 1) % drawn.cluster.device_count()); break;
      default: victim.box.hi[0] += 1;
    }
    if (i % 4 == 2 && drawn.cluster.device_count() == 1) continue;
    if (i % 4 == 3 && victim.box.rank == 0) continue;
    plan::PlanDraft spoiled = plan->draft();
    plan::set_operations(spoiled, operations);
    EXPECT_NE(judge(plan::seal(std::move(spoiled)), drawn.input()), "") << "spoilt: " << i % 4;
    ++spoilt;
  }
  EXPECT_GT(spoilt, 200);
}

TEST(Cases, FollowFromTheirSeed) {
  EXPECT_EQ(make_case(99).str(), make_case(99).str());
  EXPECT_NE(make_case(99).str(), make_case(100).str());
  const DifferentialCase there_and_back = make_round_trip(99);
  EXPECT_THAT(there_and_back.residency.lost, IsEmpty());
}

TEST(Check, AgreesOnACaseAndItsWayBack) {
  EXPECT_EQ(check_case(make_case(99)).wrong, "");
  EXPECT_EQ(check_round_trip(make_round_trip(99)).wrong, "");
}

}  // namespace
}  // namespace scalai::differential
