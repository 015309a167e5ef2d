#include "labs/policies/gandiva_allox.h"

#include <fmt/core.h>

#include <map>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/testing/support.h"

namespace scalai::policy::labs {
namespace {

using testing::random_problem;

ShareProblem jobs_on(std::vector<int> gpus, const std::vector<int>& wanted) {
  ShareProblem problem;
  problem.gpus = std::move(gpus);
  for (int want : wanted) {
    ShareJob& job = problem.jobs.emplace_back();
    job.id = JobId(static_cast<int64_t>(problem.jobs.size()) - 1);
    job.gpus = want;
    job.remaining = 100;
    for (size_t j = 0; j < problem.gpus.size(); ++j) {
      job.rates.push_back(1.0 / static_cast<double>(j + 1));  // type 0 is the fastest
    }
  }
  return problem;
}

int type_of(const Shares& shares, size_t job) {
  for (size_t j = 0; j < shares.alone[job].size(); ++j) {
    if (shares.alone[job][j] > 0) return static_cast<int>(j);
  }
  return -1;
}

TEST(GandivaRule, EqualSharesWhileAllFit) {
  const ShareProblem problem = jobs_on({2, 2}, {1, 1, 2});
  GandivaRule rule(1);
  const auto shares = rule.shares(problem);
  ASSERT_TRUE(shares.ok());
  EXPECT_EQ(shares->alone, isolated_shares(problem).alone);
}

TEST(GandivaRule, PairsOfEqualSizeAreMadeAndKeptWhileWorthIt) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    ShareProblem problem = jobs_on({2, 2}, {1, 1, 1, 1, 2, 2});
    const double worth = seed % 2 == 0 ? 0.9 : 0.2;  // of each member: 1.8 or 0.4 a type
    for (int j = 0; j < 2; ++j) {
      for (int a = 0; a < 6; ++a) {
        for (int b = a + 1; b < 6; ++b) {
          const ShareJob& first = problem.jobs[static_cast<size_t>(a)];
          const ShareJob& second = problem.jobs[static_cast<size_t>(b)];
          const double rate = worth * first.rates[static_cast<size_t>(j)];
          if (first.gpus == second.gpus) problem.pairs.push_back({a, b, GpuType(j), rate, rate});
        }
      }
    }
    GandivaRule rule(seed);
    auto first = rule.shares(problem);
    // Draws of two jobs of different size are for nothing; soon there is a pair.
    for (int draw = 0; draw < 20 && rule.remarks().starts_with("0 pairs"); ++draw) first = rule.shares(problem);
    const auto second = rule.shares(problem);
    ASSERT_TRUE(first.ok() && second.ok());
    testing::expect_allowed(problem, *first);
    EXPECT_GT(*std::max_element(first->paired.begin(), first->paired.end()), 0);
    if (seed % 2 == 0) {  // worth it: who is paired stays so
      for (size_t p = 0; p < problem.pairs.size(); ++p) {
        EXPECT_LE(first->paired[p] > 0, second->paired[p] > 0);
      }
      EXPECT_NE(rule.remarks().find(" 0 dissolved"), std::string::npos) << rule.remarks();
    } else {
      EXPECT_EQ(rule.remarks().find(" 0 dissolved"), std::string::npos) << rule.remarks();
    }
  }
}

TEST(GandivaRule, APairIsWorthItOnOneType) {
  // 0.3 + 0.3 on each of two types: 0.6 on the best, 1.2 summed.
  ShareProblem problem = jobs_on({1, 0}, {1, 1});
  problem.pairs = {{0, 1, GpuType(0), 0.3, 0.3}, {0, 1, GpuType(1), 0.15, 0.15}};
  GandivaRule rule(1);
  ASSERT_TRUE(rule.shares(problem).ok());
  ASSERT_TRUE(rule.shares(problem).ok());
  EXPECT_EQ(rule.remarks(), "2 pairs made at random, 1 dissolved as not worth it");
}

// All assignments of jobs to GPUs, each GPU's jobs the shortest first: the least sum of completion times, of all and of
// those that begin with the given jobs.
struct Assignments {
  const ShareProblem& problem;
  std::vector<std::pair<size_t, size_t>> begun;    // (job, type), by job
  std::vector<std::pair<size_t, size_t>> at = {};  // by job: its GPU and that one's type
  double best = kNever;
  double best_begun = kNever;

  void try_all() {
    if (at.size() == problem.jobs.size()) return weigh();
    size_t gpu = 0;
    for (size_t j = 0; j < problem.gpus.size(); ++j) {
      for (int k = 0; k < problem.gpus[j]; ++k, ++gpu) {
        at.emplace_back(gpu, j);
        try_all();
        at.pop_back();
      }
    }
  }
  void weigh() {
    std::map<size_t, std::vector<std::pair<double, size_t>>> lists;
    for (size_t m = 0; m < at.size(); ++m) {
      lists[at[m].first].emplace_back(problem.jobs[m].remaining / problem.jobs[m].rates[at[m].second], m);
    }
    double sum = 0;
    std::vector<std::pair<size_t, size_t>> first;
    for (auto& [gpu, list] : lists) {
      std::sort(list.begin(), list.end());
      first.emplace_back(list.front().second, at[list.front().second].second);
      double now = 0;
      for (const auto& entry : list) {
        now += entry.first;
        sum += now;
      }
    }
    std::sort(first.begin(), first.end());
    best = std::min(best, sum);
    best_begun = first == begun ? std::min(best_begun, sum) : best_begun;
  }
};

TEST(AlloxRule, BeginsAsAnOptimalAssignmentDoes) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    ShareProblem problem;
    problem.gpus = {static_cast<int>(random.between(1, 2)), 1};
    const int jobs = static_cast<int>(random.between(1, 6));
    for (int m = 0; m < jobs; ++m) {
      problem.jobs.push_back({.id = JobId(m),
                              .rates = {1 + random.uniform(), 0.2 + random.uniform()},
                              .remaining = 1 + random.uniform() * 10});
    }
    AlloxRule rule(1);
    const auto shares = rule.shares(problem);
    ASSERT_TRUE(shares.ok()) << shares.status();
    testing::expect_allowed(problem, *shares);
    Assignments all{.problem = problem, .begun = {}};
    for (size_t m = 0; m < problem.jobs.size(); ++m) {
      if (const int type = type_of(*shares, m); type >= 0) all.begun.emplace_back(m, static_cast<size_t>(type));
    }
    all.try_all();
    EXPECT_NEAR(all.best_begun, all.best, 1e-6 * all.best);
  }
}

TEST(AlloxRule, ARunningJobKeepsItsGpu) {
  ShareProblem problem = jobs_on({1, 1}, {1, 1, 1});
  AlloxRule rule(1);
  const auto first = rule.shares(problem);
  ASSERT_TRUE(first.ok());
  problem.jobs[0].remaining = 1e6;  // whatever it turns out to need
  const auto second = rule.shares(problem);
  ASSERT_TRUE(second.ok());
  for (size_t m = 0; m < 3; ++m) {
    if (type_of(*first, m) >= 0) {
      EXPECT_EQ(type_of(*first, m), type_of(*second, m)) << m;
    }
  }
}

TEST(AlloxRule, LargerJobsAreRefused) {
  AlloxRule rule(1);
  const auto shares = rule.shares(jobs_on({4}, {1, 2}));
  ASSERT_TRUE(absl::IsInvalidArgument(shares.status()));
  EXPECT_EQ(message_of(shares.status()), "allox serves jobs of one GPU; job 1 asks for 2");
}

}  // namespace
}  // namespace scalai::policy::labs
