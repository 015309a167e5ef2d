#include "ptc/run/policy/policies/order/marginal.h"

#include <gmock/gmock.h>

#include "ptc/run/policy/policies/order/shares_of_gpus.h"
#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::order {
namespace {

using ::testing::ElementsAre;

// l short, h long: l wins iff (p_l' - p_l) / p_l > (p_h' - p_h) / p_h'.
TEST(AfsL, TheTournamentWeighsLengthAndSpeedUp) {
  // l: +50 % of what it has; h: 0.9 of 1.9 = 47 % of what it would have
  std::vector<Claim> claims = {claim(0, 10, {1, 1.5}), claim(1, 100, {1, 1.9})};
  EXPECT_EQ(share_afs(3, {}, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(2, 1));
  claims = {claim(0, 10, {1, 1.4}), claim(1, 100, {1, 1.9})};
  EXPECT_EQ(share_afs(3, {}, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(1, 2));
}

TEST(AfsL, ExcessGoesOnToThoseThatCanGrow) {
  std::vector<Claim> claims = {claim(0, 10, {1}), claim(1, 100, {1, 1.1, 1.2})};
  EXPECT_EQ(share_afs(5, {}, &claims), 1);
  EXPECT_THAT(gpus_of(claims), ElementsAre(1, 3));
}

// Linear speed-up: all that is left goes to one of the two.
TEST(AfsL, ARunEndsAsByHand) {
  const Fleet fleet = testing::plain_fleet(1, 4);
  // AFS-L: the third GPU to a (1 of 1 against 1 of 2), the fourth to b (1 of 2 against 1 of 2).
  const Outcome afs = play(make_order_policy("afs-l").get(), elastic_jobs(), fleet);
  EXPECT_DOUBLE_EQ(afs.jobs[0].finish_s, 50);
  EXPECT_DOUBLE_EQ(afs.jobs[1].finish_s, 50 + (400 - 100) / 4.0);
}

// Two types: jobs are spread over both, and nobody waits while the other type has GPUs.
TEST(Marginal, PoolsOfSeveralTypes) {
  Fleet fleet;
  fleet.types = {{.name = "x"}, {.name = "y"}};
  fleet.hosts = {{GpuType(0), 2}, {GpuType(1), 4}};
  Workload workload;
  for (int k = 0; k < 6; ++k) workload.jobs.push_back(testing::rigid_job("job" + std::to_string(k), 0, 1, 100));
  const Outcome outcome = play(make_order_policy("afs-l").get(), workload, fleet);
  EXPECT_THAT(finish_times(outcome), ::testing::Each(100));
}

}  // namespace
}  // namespace scalai::policy::order
