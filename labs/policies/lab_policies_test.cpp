#include <gmock/gmock.h>

#include "ptc/run/policy/policies/order/testing/support.h"
#include "ptc/run/policy/policies/shares/testing/worlds.h"

namespace scalai::policy::labs {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<std::string> names_of(const std::string& family) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : lab_policies()) {
    if (info.family == family) names.push_back(info.name);
  }
  return names;
}

TEST(LabPolicies, AreTheOnesThatTheReadmeHas) {
  EXPECT_THAT(names_of("order"), ElementsAre("themis", "optimus", "afs-p"));
  EXPECT_THAT(names_of("shares"), ElementsAre("gandiva", "allox"));
  EXPECT_EQ(lab_policies().size(), 5U);
}

TEST(LabPolicies, TheCatalogueHasThemInTheirPlaces) {
  std::vector<std::string> names;
  for (const PolicyInfo& info : policies()) names.push_back(info.name);
  const auto from = [&](const char* first, int count) {
    const auto at = std::find(names.begin(), names.end(), first);
    return std::vector<std::string>(at, at + count);
  };
  EXPECT_THAT(from("tiresias", 5), ElementsAre("tiresias", "themis", "optimus", "afs-l", "afs-p"));
  EXPECT_THAT(from("gavel-proportional", 3), ElementsAre("gavel-proportional", "gandiva", "allox"));
  for (const PolicyInfo& info : lab_policies()) EXPECT_EQ(left_out(info.name), "");
}

// Jobs of 10 s that come at 5 and 15 s, asked about once a minute.
TEST(LabPolicies, ThoseThatAreAnOrderCanBeAskedAtIntervals) {
  for (const std::string& name : names_of("order")) {
    SCOPED_TRACE(name);
    const Workload workload{"w", {testing::rigid_job("a", 5, 1, 10), testing::rigid_job("b", 15, 1, 10)}};
    const auto policy = order::make_order_policy(name, {{"interval", "60s"}});
    const Outcome outcome = order::play(policy.get(), workload, testing::plain_fleet(1, 1));
    EXPECT_THAT(order::finish_times(outcome), ElementsAre(70, 130));
  }
}

// Two types: jobs are spread over both, and nobody waits while the other type has GPUs.
TEST(LabPolicies, PoolsOfSeveralTypes) {
  Fleet fleet;
  fleet.types = {{.name = "x"}, {.name = "y"}};
  fleet.hosts = {{GpuType(0), 2}, {GpuType(1), 4}};
  Workload workload;
  for (int k = 0; k < 6; ++k) workload.jobs.push_back(testing::rigid_job("job" + std::to_string(k), 0, 1, 100));
  for (const char* name : {"optimus", "afs-p"}) {
    SCOPED_TRACE(name);
    const Outcome outcome = order::play(order::make_order_policy(name).get(), workload, fleet);
    EXPECT_THAT(order::finish_times(outcome), Each(100));
  }
}

TEST(LabPolicies, ThoseOfSharesFinishEveryJobAndTwiceTheSame) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    testing::expect_ends_twice_the_same("gandiva", seed, false);
    testing::expect_ends_twice_the_same("allox", seed, true);
  }
}

// Gavel's trace, and three of its 96 jobs on one GPU each, which is where AlloX takes jobs: its simulator as released
// (c4fa4009, seed 0, ECOS; results/policies).
TEST(LabPolicies, GavelsTracesWithinFourPercent) {
  if (testing::data_path("gavel/traces/physical_max_min_fairness.trace").empty()) {
    GTEST_SKIP() << testing::data_hint("gavel");
  }
  constexpr const char* kMakespan = "physical_minimize_makespan.trace";
  const auto world = testing::gavel_world(kMakespan);
  ASSERT_TRUE(world.ok()) << world.status();
  testing::expect_published(*world, {kMakespan, "gandiva", 9.743, 21.110}, 0.04, 0.04);
  constexpr const char* kFairness = "physical_max_min_fairness.trace";
  const auto alone = testing::one_gpu_world(kFairness);
  ASSERT_TRUE(alone.ok()) << alone.status();
  testing::expect_published(*alone, {kFairness, "allox", 10.842, 46.916}, 0.04, 0.06);
}

}  // namespace
}  // namespace scalai::policy::labs
