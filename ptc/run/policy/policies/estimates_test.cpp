#include "ptc/run/policy/policies/estimates.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace estimates_test {

using ::testing::ElementsAre;

// Jobs on one GPU; the times at which they end.
std::vector<double> ends(const std::string& name, const std::vector<Job>& jobs, std::vector<double> factors) {
  const Fleet fleet = testing::plain_fleet(1, 1);
  const Workload workload{.name = "", .jobs = jobs};
  const testing::PlainThroughput throughput;
  const auto changes = jobs::make_constant_changes({});
  auto policy = with_estimates(make_policy(name, {}, 1).value(), std::move(factors));
  const auto outcome = jobs::run({.workload = &workload,
                                  .fleet = &fleet,
                                  .throughput = &throughput,
                                  .policy = policy.get(),
                                  .changes = changes.get(),
                                  .options = {},
                                  .watcher = {}});
  EXPECT_TRUE(outcome.ok()) << message_of(outcome.status());
  std::vector<double> times;
  for (size_t k = 0; outcome.ok() && k < jobs.size(); ++k) times.push_back(outcome->jobs[k].finish_s);
  return times;
}

// Two jobs of 100 and 80 s, a third of 10 s at 60 s.
const std::vector<Job> kJobs = {testing::rigid_job("a", 0, 1, 100), testing::rigid_job("b", 0, 1, 80),
                                testing::rigid_job("c", 60, 1, 10)};

TEST(Estimates, ExactOnesAreTheTruth) {
  EXPECT_THAT(ends("srtf", kJobs, {1, 1, 1}), ElementsAre(190, 90, 70)) << "at 60 s b has 20 s left, c 10 s";
  EXPECT_THAT(ends("sjf", kJobs, {1, 1, 1}), ElementsAre(190, 80, 90));
}

// a is believed to take 50 s and goes first. At 60 s it should be over, so c waits; it takes 100 s all the same.
TEST(Estimates, AnUnderestimateGoesFirstAndStays) {
  EXPECT_THAT(ends("srtf", kJobs, {0.5, 1, 1}), ElementsAre(100, 190, 110));
  EXPECT_THAT(ends("sjf", kJobs, {0.5, 1, 1}), ElementsAre(100, 190, 110));
}

// c is believed to take 30 s: more than the 20 s that b has left at 60 s.
TEST(Estimates, AnOverestimateWaits) {
  EXPECT_THAT(ends("srtf", kJobs, {1, 1, 3}), ElementsAre(190, 80, 90));
  EXPECT_THAT(ends("srtf", kJobs, {1, 1, 1.5}), ElementsAre(190, 90, 70)) << "15 s are still fewer";
}

TEST(Estimates, PoliciesWithoutLengthsDecideAsBefore) {
  EXPECT_EQ(ends("fifo", kJobs, {1, 1, 1}), ends("fifo", kJobs, {0.1, 5, 0.3}));
  EXPECT_EQ(ends("tiresias", kJobs, {1, 1, 1}), ends("tiresias", kJobs, {0.1, 5, 0.3}));
}

TEST(Estimates, FactorsHaveTheirDistribution) {
  constexpr size_t kCount = 20000;
  const auto uniform = estimate_factors({.uniform = 0.3}, 5, kCount);
  const auto log_normal = estimate_factors({.log_normal = 0.5}, 5, kCount);
  double low = 9, high = 0, sum = 0, log_sum = 0, log_squares = 0;
  for (size_t k = 0; k < kCount; ++k) {
    low = std::min(low, uniform[k]);
    high = std::max(high, uniform[k]);
    sum += uniform[k];
    log_sum += std::log(log_normal[k]);
    log_squares += std::log(log_normal[k]) * std::log(log_normal[k]);
  }
  EXPECT_GE(low, 0.7);
  EXPECT_LT(high, 1.3);
  EXPECT_LT(low, 0.701);
  EXPECT_GT(high, 1.299);
  EXPECT_NEAR(sum / kCount, 1, 0.005) << "four standard errors of 0.3 / sqrt(3 · 20,000)";
  EXPECT_NEAR(log_sum / kCount, 0, 0.0142);
  EXPECT_NEAR(std::sqrt(log_squares / kCount), 0.5, 0.01);
}

TEST(Estimates, FactorsAreOfSeedAndJob) {
  const EstimateError error{.uniform = 0.2};
  EXPECT_EQ(estimate_factors(error, 3, 10), estimate_factors(error, 3, 10));
  EXPECT_NE(estimate_factors(error, 3, 10), estimate_factors(error, 4, 10));
  const auto small = estimate_factors(error, 3, 5), large = estimate_factors({.uniform = 0.4}, 3, 10);
  for (size_t k = 0; k < small.size(); ++k) EXPECT_NEAR(2 * (small[k] - 1), large[k] - 1, 1e-12) << k;
  EXPECT_THAT(estimate_factors({}, 3, 3), ElementsAre(1, 1, 1));
}

}  // namespace estimates_test
}  // namespace scalai::policy
