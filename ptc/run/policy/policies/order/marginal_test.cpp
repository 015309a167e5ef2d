#include "ptc/run/policy/policies/order/marginal.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ptc/run/policy/policies/order/shares_of_gpus.h"
#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::order {
namespace {

using ::testing::ElementsAre;

// A job that runs at rates[k] a second on k + 1 GPUs.
Claim claim(int32_t id, double work, std::vector<double> rates) {
  Claim it{.id = JobId(id), .sizes = {}, .rates = std::move(rates), .work_left = work, .share = -1};
  for (size_t k = 1; k <= it.rates.size(); ++k) it.sizes.push_back(static_cast<int>(k));
  return it;
}

std::vector<int> gpus_of(const std::vector<Claim>& claims) {
  std::vector<int> gpus;
  for (const Claim& it : claims) gpus.push_back(it.gpus());
  return gpus;
}

TEST(Optimus, TheLargestFallOfRemainingTimeFirst) {
  // a: 100 s, 50 s, 33.3 s; b: 60 s, 40 s, 36 s
  std::vector<Claim> claims = {claim(0, 100, {1, 2, 3}), claim(1, 60, {1, 1.5, 60.0 / 36})};
  EXPECT_EQ(share_optimus(3, shortest_first, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(2, 1));
  claims = {claim(0, 100, {1, 2, 3}), claim(1, 60, {1, 1.5, 60.0 / 36})};
  EXPECT_EQ(share_optimus(4, shortest_first, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(2, 2));  // 20 s against 16.7 s
}

TEST(Optimus, NobodyGetsAGpuThatDoesNotHelp) {
  std::vector<Claim> claims = {claim(0, 100, {1, 1, 2})};
  EXPECT_EQ(share_optimus(3, shortest_first, &claims), 2);
  EXPECT_THAT(gpus_of(claims), ElementsAre(1));
}

TEST(Optimus, WithTooFewGpusTheShortestRun) {
  std::vector<Claim> claims = {claim(0, 100, {1, 2}), claim(1, 10, {1, 2}), claim(2, 50, {1, 2})};
  EXPECT_EQ(share_optimus(2, shortest_first, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(0, 1, 1));
  claims = {claim(0, 100, {1, 2}), claim(1, 10, {1, 2}), claim(2, 50, {1, 2})};
  EXPECT_EQ(share_optimus(
                2, [](const Claim&) { return 0.0; }, &claims),
            0);  // or the first to come
  EXPECT_THAT(gpus_of(claims), ElementsAre(1, 1, 0));
}

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

// The same speed-ups: the shorter one wins, and where lengths are not known the one with fewer epochs.
TEST(AfsP, FewerEpochsCountAsShorter) {
  std::vector<Claim> claims = {claim(0, 10, {1, 1.5}), claim(1, 100, {1, 1.5})};
  EXPECT_EQ(share_afs(3, {}, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(2, 1));
  claims = {claim(0, 10, {1, 1.5}), claim(1, 100, {1, 1.5})};
  EXPECT_EQ(share_afs(3, {5, 0}, &claims), 0);
  EXPECT_THAT(gpus_of(claims), ElementsAre(1, 2));
}

Workload elastic_jobs() {
  Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 100), testing::rigid_job("b", 0, 1, 400)}};
  for (Job& job : workload.jobs) job.max_gpus = 4;
  return workload;
}

// Linear speed-up: all that is left goes to one of the two.
TEST(Marginal, RunsEndAsByHand) {
  const Fleet fleet = testing::plain_fleet(1, 4);
  // Optimus: b gains 200 s with a second GPU, then 66.7 s with a third; a 50 s with its second.
  const Outcome optimus = play(make_order_policy("optimus").get(), elastic_jobs(), fleet);
  EXPECT_DOUBLE_EQ(optimus.jobs[0].finish_s, 100);
  EXPECT_DOUBLE_EQ(optimus.jobs[1].finish_s, 100 + (400 - 300) / 4.0);
  // AFS-L: the third GPU to a (1 of 1 against 1 of 2), the fourth to b (1 of 2 against 1 of 2).
  const Outcome afs = play(make_order_policy("afs-l").get(), elastic_jobs(), fleet);
  EXPECT_DOUBLE_EQ(afs.jobs[0].finish_s, 50);
  EXPECT_DOUBLE_EQ(afs.jobs[1].finish_s, 50 + (400 - 100) / 4.0);
}

// At the end of its first epoch the job that has run gives way to the one that came later.
TEST(Marginal, AfsPLooksAgainAtTheEndOfEpochs) {
  Workload workload = elastic_jobs();
  for (Job& job : workload.jobs) job.max_gpus = 1;
  workload.jobs[1].submit_s = 10;
  const Outcome outcome =
      play(make_order_policy("afs-p", {{"epoch", "60s"}}).get(), workload, testing::plain_fleet(1, 1));
  EXPECT_GE(outcome.jobs[0].preemptions, 1);
  EXPECT_EQ(outcome.jobs[1].first_start_s, 60);
}

// Two types: jobs are spread over both, and nobody waits while the other type has GPUs.
TEST(Marginal, PoolsOfSeveralTypes) {
  Fleet fleet;
  fleet.types = {{.name = "x"}, {.name = "y"}};
  fleet.hosts = {{GpuType(0), 2}, {GpuType(1), 4}};
  Workload workload;
  for (int k = 0; k < 6; ++k) workload.jobs.push_back(testing::rigid_job("job" + std::to_string(k), 0, 1, 100));
  for (const char* name : {"optimus", "afs-l", "afs-p"}) {
    SCOPED_TRACE(name);
    const Outcome outcome = play(make_order_policy(name).get(), workload, fleet);
    for (const double at_s : finish_times(outcome)) EXPECT_EQ(at_s, 100);
  }
}

}  // namespace
}  // namespace scalai::policy::order
