#include <fmt/core.h>
#include <gtest/gtest.h>

#include <set>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/shares_policies.h"
#include "ptc/run/policy/policies/shares/testing/worlds.h"

namespace scalai::policy {
namespace shares_policies_test {

using testing::gavel_world;
using testing::made;
using testing::Published;
using testing::random_world;
using testing::repeat;
using testing::World;

TEST(SharesPolicies, NamesAreUniqueAndEverythingIsSaid) {
  std::set<std::string> names;
  for (const PolicyInfo& info : share_policies()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.summary.empty() || info.source.empty()) << info.name;
    EXPECT_EQ(info.family, "shares");
    for (const ParameterInfo& parameter : info.parameters) {
      EXPECT_FALSE(parameter.help.empty() || parameter.default_value.empty() || parameter.unit.empty()) << info.name;
    }
    const std::unique_ptr<Policy> policy = made(info.name, {});
    EXPECT_EQ(policy->traits().needs_durations, info.traits.needs_durations) << info.name;
    EXPECT_EQ(policy->traits().heterogeneous, info.traits.heterogeneous) << info.name;
  }
  EXPECT_EQ(names.size(), 13U);
}

TEST(SharesPolicies, EveryoneFinishesEveryJobAndTwiceTheSame) {
  for (const PolicyInfo& info : share_policies()) {
    for (uint64_t seed = 1; seed <= 3; ++seed) testing::expect_ends_twice_the_same(info.name, seed, false);
  }
}

// Two equal jobs on two GPUs, one twice as fast: each has half of both all the time, 1.5 iterations a second.
TEST(SharesPolicies, IdealSharesAreAppliedAtOnce) {
  World world;
  world.fleet.types = {{"x", 1.0}, {"y", 1.0}};
  world.fleet.hosts = {{GpuType(0), 1}, {GpuType(1), 1}};
  world.workload.jobs = {testing::rigid_job("a", 0, 1, 150), testing::rigid_job("b", 0, 1, 150)};
  world.throughput = std::make_unique<testing::PlainThroughput>(std::vector<double>{2, 1});
  for (const char* name : {"gavel-max-min", "gavel-water-filling", "gavel-isolated", "gavel-proportional"}) {
    const auto policy = made(name, {{"ideal", "true"}});
    const auto outcome = world.run(*policy);
    ASSERT_TRUE(outcome.ok()) << name << ": " << outcome.status();
    for (const JobRecord& record : outcome->jobs) EXPECT_NEAR(record.finish_s, 100, 1e-6) << name;
    EXPECT_THAT(outcome->policy_remarks, ::testing::HasSubstr("ideal"));
  }
}

// Rounds of one second, with shares computed as often, come close to it where whole jobs fit everywhere.
TEST(SharesPolicies, ShortRoundsComeCloseToIdealShares) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const World world = random_world(seed, true);
    double mean_s[2] = {0, 0};
    for (const bool ideal : {false, true}) {
      const auto policy = made(
          "gavel-max-min", {{"ideal", ideal ? "true" : "false"}, {"round", "2s"}, {"reset", "2s"}, {"fill", "false"}});
      const auto outcome = world.run(*policy);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      for (const JobRecord& record : outcome->jobs) {
        mean_s[ideal ? 1 : 0] += record.finish_s - world.workload.jobs[static_cast<size_t>(record.job.value)].submit_s;
      }
    }
    EXPECT_NEAR(mean_s[0] / mean_s[1], 1, 0.02) << "seed " << seed;
  }
}

TEST(SharesPolicies, PopSplitsAnyProgram) {
  for (const PolicyInfo& info : share_policies()) {
    const bool pop = std::any_of(info.parameters.begin(), info.parameters.end(),
                                 [](const ParameterInfo& parameter) { return parameter.name == "pop"; });
    if (!pop) continue;
    SCOPED_TRACE(info.name);
    const World world = random_world(7, true);
    for (const char* split : {"mod", "random"}) {
      const std::unique_ptr<Policy> policy = made(info.name, {{"pop", "3"}, {"split", split}});
      const auto outcome = world.run(*policy);
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      EXPECT_NE(outcome->policy_remarks.find("POP: 3 groups"), std::string::npos) << outcome->policy_remarks;
    }
    const std::unique_ptr<Policy> policy = made(info.name, {{"pop", "5"}});
    const auto outcome = random_world(7, false).run(*policy);  // jobs of 4 GPUs, 2 or 1 a group
    EXPECT_TRUE(absl::IsInvalidArgument(outcome.status())) << outcome.status();
  }
}

TEST(SharesPolicies, WrongParametersAreSaidBeforeTheRun) {
  const World world = random_world(1, false);
  const std::vector<std::pair<std::string, std::pair<std::string, std::string>>> cases = {
      {"gavel-max-min", {"pop", "0"}},
      {"gavel-finish-time", {"split", "fair"}},
      {"gavel-finish-time", {"pop", "5000"}},
      {"gavel-water-filling", {"inside", "lifo"}},
      {"gavel-water-filling", {"entity-weights", "a=2,b"}},
      {"gavel-water-filling", {"entity-weights", "a=-1"}}};
  for (const auto& [name, setting] : cases) {
    const std::unique_ptr<Policy> policy = made(name, {setting});
    const auto outcome = world.run(*policy);
    ASSERT_TRUE(absl::IsInvalidArgument(outcome.status())) << name;
    EXPECT_NE(message_of(outcome.status()).find("\"" + setting.first + "\""), std::string::npos) << outcome.status();
  }
  EXPECT_TRUE(world.run(*made("gavel-water-filling", {{"entity-weights", "a=2,b=0.5"}, {"entities", "true"}})).ok());
}

TEST(SharesPolicies, CostNeedsPrices) {
  World world = random_world(1, false);
  world.fleet.types[1].price_per_gpu_hour = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(world.run(*made("gavel-cost", {})).status()));
  EXPECT_TRUE(world.run(*made("gavel-throughput", {})).ok());
}

// --- Gavel's traces (G1, G2) -----------------------------------------------------------------------------------------

TEST(SharesPolicies, GavelsTracesWithinFourPercent) {
  if (testing::data_path("gavel/traces/physical_max_min_fairness.trace").empty()) {
    GTEST_SKIP() << testing::data_hint("gavel");
  }
  for (const Published& row :
       {Published{"physical_max_min_fairness.trace", "gavel-max-min", 3.954, 17.868},
        Published{"physical_max_min_fairness.trace", "gavel-max-min-agnostic", 5.775, 21.058},
        Published{"physical_minimize_makespan.trace", "gavel-makespan", 17.671, 17.861},
        Published{"physical_minimize_makespan.trace", "gavel-makespan-agnostic", 19.986, 21.287}}) {
    const auto world = gavel_world(row.trace);
    ASSERT_TRUE(world.ok()) << world.status();
    testing::expect_published(*world, row, 0.04, 0.04);
  }
}

// Three of Gavel's 96 jobs, 10,000 s apart, on one GPU each: its simulator as released (c4fa4009, seed 0, ECOS;
// results/policies). Tolerances as above, 6 % for the last job.
TEST(SharesPolicies, OneGpuJobsAsInGavelsSimulator) {
  constexpr const char* kTrace = "physical_max_min_fairness.trace";
  if (testing::data_path(std::string("gavel/traces/") + kTrace).empty()) GTEST_SKIP() << testing::data_hint("gavel");
  const auto world = testing::one_gpu_world(kTrace);
  ASSERT_TRUE(world.ok()) << world.status();
  testing::expect_published(*world, {kTrace, "gavel-isolated", 19.633, 58.187}, 0.04, 0.06);
}

void expect_all_finished(const World& world, const char* name) {
  const std::unique_ptr<Policy> policy = made(name, {});
  const auto outcome = world.run(*policy);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  for (const JobRecord& job : outcome->jobs) EXPECT_EQ(job.end, JobEnd::kFinished);
  fmt::print("{}: {}\n", name, outcome->policy_remarks);
}

// Programs on which CLP finds no point that is there, or an assertion of it fails.
TEST(SharesPolicies, NoSolveEndsARun) {
  constexpr const char* kTrace = "physical_max_min_fairness.trace";
  if (testing::data_path(std::string("gavel/traces/") + kTrace).empty()) GTEST_SKIP() << testing::data_hint("gavel");
  auto world = gavel_world(kTrace);
  ASSERT_TRUE(world.ok()) << world.status();
  expect_all_finished(*world, "gavel-water-filling");
  repeat(*world, 10, 20'000);
  expect_all_finished(*world, "gavel-max-min");
}

}  // namespace shares_policies_test
}  // namespace scalai::policy
