#include "labs/policies/afs_p.h"

#include <gmock/gmock.h>

#include "ptc/run/policy/policies/order/marginal.h"
#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::labs {
namespace {

using order::Claim;
using order::claim;
using order::elastic_jobs;
using order::gpus_of;
using order::make_order_policy;
using order::play;
using order::share_afs;
using ::testing::ElementsAre;

// The same speed-ups: the shorter one wins, and where lengths are not known the one with fewer epochs.
TEST(AfsP, FewerEpochsCountAsShorter) {
  std::vector<Claim> claims = {claim(0, 10, {1, 1.5}), claim(1, 100, {1, 1.5})};
  EXPECT_EQ(share_afs(3, {}, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(2, 1));
  claims = {claim(0, 10, {1, 1.5}), claim(1, 100, {1, 1.5})};
  EXPECT_EQ(share_afs(3, {5, 0}, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(1, 2));
}

// At the end of its first epoch the job that has run gives way to the one that came later.
TEST(AfsP, LooksAgainAtTheEndOfEpochs) {
  Workload workload = elastic_jobs();
  for (Job& job : workload.jobs) job.max_gpus = 1;
  workload.jobs[1].submit_s = 10;
  const Outcome outcome =
      play(make_order_policy("afs-p", {{"epoch", "60s"}}).get(), workload, testing::plain_fleet(1, 1));
  EXPECT_GE(outcome.jobs[0].preemptions, 1);
  EXPECT_EQ(outcome.jobs[1].first_start_s, 60);
}

}  // namespace
}  // namespace scalai::policy::labs
