#include "labs/policies/themis.h"

#include <gmock/gmock.h>

#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::labs {
namespace {

using order::finish_times;
using order::make_order_policy;
using order::play;
using ::testing::ElementsAre;

// A job keeps its GPUs for its lease, then whoever is furthest behind its fair share has them.
TEST(Themis, LeasesEndAndTheWorstOffGoesOn) {
  const Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 100), testing::rigid_job("b", 0, 1, 50)}};
  const Outcome outcome =
      play(make_order_policy("themis", {{"lease", "30s"}}).get(), workload, testing::plain_fleet(1, 1));
  // At 0 rho is 1 / 2 for both; ties by submission: a. At 30: a (30 + 70) / 200, b (30 + 50) / 100: b. At 60: a (60 +
  // 70) / 200, b (60 + 20) / 100: b to its end at 80; a.
  EXPECT_THAT(finish_times(outcome), ElementsAre(150, 80));
  EXPECT_EQ(outcome.jobs[0].preemptions, 1);
}

TEST(Themis, NobodyIsStoppedWithinALease) {
  const Workload workload{.name = "", .jobs = {testing::rigid_job("a", 0, 1, 100), testing::rigid_job("b", 1, 1, 5)}};
  const Outcome outcome =
      play(make_order_policy("themis", {{"lease", "90s"}}).get(), workload, testing::plain_fleet(1, 1));
  EXPECT_THAT(finish_times(outcome), ElementsAre(105, 95));
}

TEST(Themis, AuctionsWithPartialAllocationServeAll) {
  Workload workload{.name = "", .jobs = {}};
  for (int k = 0; k < 8; ++k) {
    Job job = testing::rigid_job("job" + std::to_string(k), 10 * k, 2, 100 + 50 * k);
    job.min_gpus = 1;
    job.max_gpus = 4;
    workload.jobs.push_back(job);
  }
  const auto finish = [&](uint64_t seed) {
    return finish_times(
        play(make_order_policy("themis", {{"form", "partial-allocation"}, {"lease", "60s"}}, seed).get(), workload,
             testing::plain_fleet(2, 4)));
  };
  for (const double at_s : finish(1)) EXPECT_LT(at_s, 2000);
  EXPECT_EQ(finish(1), finish(1));
}

// Two bidders alike for 4 GPUs, of which each can use all: each wins 2, and pays for what it takes from the other.
TEST(Themis, WinnersPayForWhatTheyTake) {
  Workload workload{.name = "", .jobs = {}};
  for (const char* name : {"a", "b"}) {
    Job job = testing::rigid_job(name, 0, 3, 400);  // the leftovers fit neither
    job.min_gpus = 1;
    job.max_gpus = 4;
    workload.jobs.push_back(job);
  }
  std::vector<int> first;
  const testing::PlainThroughput throughput;
  const auto policy =
      make_order_policy("themis", {{"form", "partial-allocation"}, {"fairness", "0"}, {"lease", "10s"}});
  const auto changes = jobs::make_constant_changes({});
  const Fleet fleet = testing::plain_fleet(1, 4);
  jobs::Setup setup{.workload = &workload,
                    .fleet = &fleet,
                    .throughput = &throughput,
                    .policy = policy.get(),
                    .changes = changes.get()};
  setup.watcher.placed = [&](double now_s, JobId, const Placement& placement, JobId) {
    if (now_s == 0) first.push_back(placement.gpus());
  };
  ASSERT_TRUE(run(setup).ok());
  // Alone the other would have 4 GPUs (300 s left), with it it has 2 (600 s): c = 1/2 of 2.
  EXPECT_THAT(first, ElementsAre(1, 1));
}

}  // namespace
}  // namespace scalai::policy::labs
