#include "ptc/run/policy/policies/shares/rounds.h"

#include <fmt/core.h>

#include <map>
#include <set>

#include "ptc/run/policy/policies/shares/testing/support.h"

namespace scalai::policy {
namespace {

using testing::random_problem;

std::vector<GpuType> in_order(const ShareProblem& problem) {
  std::vector<GpuType> order;
  for (size_t j = 0; j < problem.gpus.size(); ++j) order.emplace_back(static_cast<int64_t>(j));
  return order;
}

ShareProblem equal_jobs(int jobs, std::vector<int> gpus) {
  ShareProblem problem;
  problem.gpus = std::move(gpus);
  for (int m = 0; m < jobs; ++m) {
    problem.jobs.push_back({.id = JobId(m), .rates = std::vector<double>(problem.gpus.size(), 1)});
  }
  return problem;
}

// Whatever the shares: GPUs suffice, a job is in one pick at most, on a type that carries it, and with what it asked
// for.
TEST(Rounds, PicksAreSeatable) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const ShareProblem problem =
        random_problem(random, static_cast<int>(random.between(1, 12)), 3, random.below(2) == 0);
    const auto shares = max_min_shares(problem);
    ASSERT_TRUE(shares.ok()) << shares.status();
    Rounds rounds(360);
    rounds.adopt(problem, *shares, 0);
    for (int round = 0; round < 20; ++round) {
      std::vector<int> left = problem.gpus;
      std::set<JobId> seen;
      for (const Pick& pick : rounds.pick(problem.gpus, in_order(problem), round % 2 == 0)) {
        const ShareJob& first = problem.jobs[static_cast<size_t>(pick.first.value)];
        const auto type = static_cast<size_t>(pick.type.value);
        EXPECT_EQ(pick.gpus, first.gpus);
        left[type] -= pick.gpus;
        EXPECT_TRUE(seen.insert(pick.first).second);
        if (pick.second.valid()) {
          EXPECT_TRUE(seen.insert(pick.second).second);
          EXPECT_TRUE(std::any_of(problem.pairs.begin(), problem.pairs.end(), [&](const SharePair& pair) {
            return pair.type == pick.type && JobId(pair.first) == pick.first && JobId(pair.second) == pick.second;
          }));
        } else {
          EXPECT_GT(first.rates[type], 0);
        }
        rounds.ran(pick, 360);
      }
      EXPECT_GE(*std::min_element(left.begin(), left.end()), 0);
    }
  }
}

// Over many rounds everybody gets the promised share of time, to a few rounds: jobs of one GPU that fill the cluster.
TEST(Rounds, TimeReceivedFollowsTheShares) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int jobs = static_cast<int>(random.between(5, 12));
    ShareProblem problem = equal_jobs(jobs, {4});
    Shares shares;
    std::vector<double> weights;
    double sum = 0;
    for (int m = 0; m < jobs; ++m) {
      weights.push_back(1 + random.uniform());
      sum += weights.back();
    }
    for (int m = 0; m < jobs; ++m) {
      shares.alone.push_back({weights[static_cast<size_t>(m)] / sum * 4});
      ASSERT_LE(shares.alone.back()[0], 1.7);
      shares.alone.back()[0] = std::min(1.0, shares.alone.back()[0]);
    }
    Rounds rounds(100);
    rounds.adopt(problem, shares, 0);
    std::map<JobId, double> time;
    constexpr int kRounds = 400;
    for (int round = 0; round < kRounds; ++round) {
      for (const Pick& pick : rounds.pick(problem.gpus, in_order(problem), true)) {
        rounds.ran(pick, 100);
        time[pick.first] += 100;
      }
    }
    for (int m = 0; m < jobs; ++m) {
      const double promised = shares.alone[static_cast<size_t>(m)][0] * kRounds * 100;
      EXPECT_NEAR(time[JobId(m)], promised, 0.02 * promised + 500) << "job " << m;
    }
  }
}

TEST(Rounds, PriorityThenDeficitThenShareThenArrival) {
  ShareProblem problem = equal_jobs(3, {1});
  Rounds rounds(100);
  Shares shares;
  shares.alone = {{0.25}, {0.5}, {0.25}};
  rounds.adopt(problem, shares, 0);
  const auto first = [&] { return rounds.pick(problem.gpus, in_order(problem), false).front().first; };
  EXPECT_EQ(first(), JobId(1));  // the largest share of half a round
  rounds.ran({JobId(1), JobId(), GpuType(0), 1}, 50);
  EXPECT_EQ(first(), JobId(1));  // 0.5 / 100 is 0.25 / 50: the same priority, then the larger share
  rounds.ran({JobId(1), JobId(), GpuType(0), 1}, 1);
  EXPECT_EQ(first(), JobId(0));  // then the one that came first
  rounds.ran({JobId(0), JobId(), GpuType(0), 1}, 1);
  EXPECT_EQ(first(), JobId(2));
}

TEST(Rounds, DeficitsDecideAmongThoseWithoutAShare) {
  ShareProblem problem = equal_jobs(2, {1});
  Rounds rounds(100);
  Shares shares;
  shares.alone = {{0.5}, {0.5}};
  rounds.adopt(problem, shares, 0);
  rounds.ran({JobId(0), JobId(), GpuType(0), 1}, 400);  // and job 1 waited
  shares.alone = {{0}, {0}};
  rounds.adopt(problem, shares, 400);
  EXPECT_TRUE(rounds.pick(problem.gpus, in_order(problem), true).empty());
  EXPECT_EQ(rounds.pick(problem.gpus, in_order(problem), false).front().first, JobId(1));
}

TEST(Rounds, FinishedJobsAreGone) {
  ShareProblem problem = equal_jobs(2, {2});
  Rounds rounds(100);
  EXPECT_TRUE(rounds.pick(problem.gpus, in_order(problem), false).empty());
  Shares shares;
  shares.alone = {{1}, {0}};
  rounds.adopt(problem, shares, 0);
  EXPECT_EQ(rounds.pick(problem.gpus, in_order(problem), false).size(), 2U);
  EXPECT_EQ(rounds.pick(problem.gpus, in_order(problem), true).size(), 1U);
  rounds.finished(JobId(0));
  const std::vector<Pick> picks = rounds.pick(problem.gpus, in_order(problem), false);
  ASSERT_EQ(picks.size(), 1U);
  EXPECT_EQ(picks[0].first, JobId(1));
  rounds.ran({JobId(0), JobId(), GpuType(0), 1}, 100);  // it is gone: nothing to note
  rounds.finished(JobId(1));
  EXPECT_TRUE(rounds.pick(problem.gpus, in_order(problem), false).empty());
}

TEST(Rounds, TypesChooseOneAfterTheOther) {
  ShareProblem problem = equal_jobs(2, {1, 1});
  Rounds rounds(100);
  Shares shares;
  shares.alone = {{0.9, 0.1}, {0.1, 0.9}};
  rounds.adopt(problem, shares, 0);
  const std::vector<GpuType> backwards = {GpuType(1), GpuType(0)};
  const std::vector<Pick> picks = rounds.pick(problem.gpus, backwards, false);
  ASSERT_EQ(picks.size(), 2U);
  EXPECT_EQ(picks[0], (Pick{JobId(1), JobId(), GpuType(1), 1}));
  EXPECT_EQ(picks[1], (Pick{JobId(0), JobId(), GpuType(0), 1}));
}

}  // namespace
}  // namespace scalai::policy
