#include "ptc/run/policy/policies/goodput/sia.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace {

SiaJob random_job(Random& random, int types) {
  SiaJob job;
  job.weight = 0.5 + random.uniform();
  for (int64_t c = random.between(0, 4); c > 0; --c) {
    job.choices.push_back({GpuType(random.below(types)), static_cast<int>(random.between(1, 6)), random.uniform() * 8});
  }
  return job;
}

// The least objective of all assignments that fit.
double exhaustive(std::span<const SiaJob> jobs, std::vector<int>& chosen, std::vector<int>& left, size_t at,
                  const SiaSettings& settings) {
  if (at == jobs.size()) return sia_objective(jobs, chosen, settings);
  chosen[at] = -1;
  double best = jobs[at].locked >= 0 ? kNever : exhaustive(jobs, chosen, left, at + 1, settings);
  for (size_t c = 0; c < jobs[at].choices.size(); ++c) {
    const SiaChoice& choice = jobs[at].choices[c];
    int& gpus = left[static_cast<size_t>(choice.type.value)];
    if (choice.gpus > gpus || (jobs[at].locked >= 0 && jobs[at].locked != static_cast<int>(c))) continue;
    gpus -= choice.gpus;
    chosen[at] = static_cast<int>(c);
    best = std::min(best, exhaustive(jobs, chosen, left, at + 1, settings));
    gpus += choice.gpus;
  }
  return best;
}

TEST(SolveSia, IsTheBestOfAllAssignments) {
  int locked = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SiaSettings settings;
    settings.gap = 0;
    if (seed % 3 == 0) settings.exponent = 0.5;
    std::vector<SiaJob> jobs;
    for (int64_t k = random.between(1, 5); k > 0; --k) jobs.push_back(random_job(random, 2));
    const std::vector<int> gpus = {static_cast<int>(random.between(0, 8)), static_cast<int>(random.between(0, 8))};
    if (seed % 4 == 0 && !jobs[0].choices.empty()) jobs[0].locked = 0;
    std::vector<int> scratch(jobs.size(), -1), left = gpus;
    const double best = exhaustive(jobs, scratch, left, 0, settings);
    const auto solution = solve_sia(jobs, gpus, settings);
    if (best == kNever) {
      EXPECT_TRUE(absl::IsInvalidArgument(solution.status()));
      continue;
    }
    ASSERT_TRUE(solution.ok()) << message_of(solution.status());
    const std::vector<int>& chosen = solution->chosen;
    EXPECT_NEAR(sia_objective(jobs, chosen, settings), best, 1e-6);
    EXPECT_NEAR(solution->gap, 0, 1e-6);
    locked += jobs[0].locked >= 0 ? 1 : 0;
    left = gpus;
    for (size_t k = 0; k < jobs.size(); ++k) {
      if (chosen[k] < 0) continue;
      const SiaChoice& choice = jobs[k].choices[static_cast<size_t>(chosen[k])];
      left[static_cast<size_t>(choice.type.value)] -= choice.gpus;
    }
    EXPECT_GE(left[0], 0);
    EXPECT_GE(left[1], 0);
  }
  EXPECT_GT(locked, 5);
}

// As many as the cluster of the paper had at its busiest, and little time: what was found counts, with its distance.
TEST(SolveSia, EndsInTimeWithTheBestThatWasFound) {
  Random random(7);
  std::vector<SiaJob> jobs;
  for (int k = 0; k < 400; ++k) {
    SiaJob& job = jobs.emplace_back();
    job.weight = 0.5 + random.uniform();
    for (int c = 0; c < 30; ++c)
      job.choices.push_back(
          {GpuType(c % 3), 1 + c / 3 * 3 + static_cast<int>(random.below(3)), 1 + random.uniform() * 8});
  }
  const std::vector<int> gpus = {307, 411, 523};
  SiaSettings settings;
  settings.gap = 0;
  settings.limit_s = 0.5;
  const auto solution = solve_sia(jobs, gpus, settings);
  ASSERT_TRUE(solution.ok()) << message_of(solution.status());
  const double none = sia_objective(jobs, std::vector<int>(jobs.size(), -1), settings);
  const double found = sia_objective(jobs, solution->chosen, settings);
  EXPECT_LT(found, none);
  settings.limit_s = 1e-9;
  jobs[3].locked = 0;
  const auto in_turn = solve_sia(jobs, gpus, settings);
  ASSERT_TRUE(in_turn.ok()) << message_of(in_turn.status());
  EXPECT_EQ(in_turn->chosen[3], 0);
  EXPECT_LT(sia_objective(jobs, in_turn->chosen, settings), none);
  std::vector<int> left = gpus;
  for (size_t k = 0; k < jobs.size(); ++k) {
    if (in_turn->chosen[k] < 0) continue;
    const SiaChoice& choice = jobs[k].choices[static_cast<size_t>(in_turn->chosen[k])];
    left[static_cast<size_t>(choice.type.value)] -= choice.gpus;
  }
  EXPECT_GE(*std::min_element(left.begin(), left.end()), 0);
  settings.limit_s = 60;
  settings.gap = 0.05;
  const auto near = solve_sia(jobs, gpus, settings);
  ASSERT_TRUE(near.ok()) << message_of(near.status());
  EXPECT_LE(near->gap, 0.05 + 1e-9);
}

TEST(SolveSia, RoundsAndClipsAsThePaperCodeDoes) {
  const SiaSettings settings;
  SiaJob job;
  job.choices = {{GpuType(0), 1, 3.0}, {GpuType(0), 1, 0.0}, {GpuType(0), 1, 1e-12}};
  const std::vector<SiaJob> jobs = {job};
  // 3^-0.5 = 0.577 -> 0.58; 0 and almost 0 are clipped; lambda (1 - 1).
  EXPECT_NEAR(sia_objective(jobs, std::vector<int>{0}, settings), 0.58, 1e-12);
  EXPECT_NEAR(sia_objective(jobs, std::vector<int>{1}, settings), 3000, 1e-9);
  EXPECT_NEAR(sia_objective(jobs, std::vector<int>{2}, settings), 3000, 1e-9);
  EXPECT_NEAR(sia_objective(jobs, std::vector<int>{-1}, settings), 1.1, 1e-12);
}

TEST(SolveSia, HeavierJobsComeFirst) {
  SiaJob job;
  job.choices = {{GpuType(0), 1, 1.0}};
  std::vector<SiaJob> jobs = {job, job, job};
  jobs[1].weight = 3;
  const std::vector<int> gpus = {1};
  EXPECT_EQ(solve_sia(jobs, gpus, {})->chosen, (std::vector<int>{-1, 0, -1}));
}

TEST(SiaConfigurations, ArePowersOfTwoThenWholeHosts) {
  Fleet fleet = testing::plain_fleet(3, 4);
  fleet.types.push_back({"other", 0});
  fleet.hosts.push_back({GpuType(1), 6});
  const std::vector<int> capacity = {4, 4, 0, 6};  // the third host is down
  const GpuType a(0), b(1);
  EXPECT_EQ(sia_configurations(fleet, capacity),
            (std::vector<SiaConfiguration>{
                {a, 1, 1}, {a, 1, 2}, {a, 1, 4}, {a, 2, 8}, {b, 1, 1}, {b, 1, 2}, {b, 1, 4}, {b, 1, 6}}));
}

Job elastic_job(const std::string& name, double submit_s, int most, double work) {
  Job job = testing::rigid_job(name, submit_s, 1, work);
  job.max_gpus = most;
  return job;
}

absl::StatusOr<Outcome> run_sia(const Workload& workload, const Fleet& fleet, const Throughput& throughput,
                                const SiaSettings& settings, double change_s,
                                std::vector<std::pair<double, Placement>>* placed) {
  const auto policy = make_sia(settings);
  const auto changes = jobs::make_constant_changes({change_s, change_s});
  jobs::Setup setup{.workload = &workload,
                    .fleet = &fleet,
                    .availability = nullptr,
                    .throughput = &throughput,
                    .policy = policy.get(),
                    .changes = changes.get(),
                    .options = {},
                    .watcher = {}};
  setup.watcher.placed = [&](double now_s, JobId, const Placement& placement, JobId) {
    if (placed != nullptr) placed->emplace_back(now_s, placement);
  };
  return run(setup);
}

TEST(Sia, DoublesAJobAloneUntilItHasAll) {
  const Fleet fleet = testing::plain_fleet(4, 4);
  const Workload workload{"w", {elastic_job("a", 10, 16, 4000)}};
  const testing::PlainThroughput throughput;
  std::vector<std::pair<double, Placement>> placed;
  const auto outcome = run_sia(workload, fleet, throughput, {}, 5, &placed);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  std::vector<int> gpus;
  for (const auto& [at_s, placement] : placed) {
    if (!placement.empty()) gpus.push_back(placement.gpus());
    EXPECT_GE(at_s, 60);  // the first interval after it came
  }
  EXPECT_EQ(gpus, (std::vector<int>{1, 2, 4, 8, 16}));
}

TEST(Sia, TakesTheFasterTypeOnceItKnowsIt) {
  Fleet fleet = testing::plain_fleet(1, 1);
  fleet.types.push_back({"fast", 0});
  fleet.hosts.push_back({GpuType(1), 1});
  const Workload workload{"w", {elastic_job("a", 0, 1, 5000)}};
  const testing::PlainThroughput throughput({1, 3});
  SiaSettings settings;
  settings.explore = false;
  std::vector<std::pair<double, Placement>> placed;
  ASSERT_TRUE(run_sia(workload, fleet, throughput, settings, 0, &placed).ok());
  EXPECT_EQ(placed.front().second.type, GpuType(1));
}

// A second GPU makes it 5 % faster; a change takes 1,000 s.
TEST(Sia, StaysWhereAChangeIsNotWorthIt) {
  class Little final : public Throughput {
   public:
    Rate rate(const Job&, GpuType, int gpus, double) const override { return {gpus > 1 ? 1.05 : 1}; }
    std::string description() const override { return "little"; }
  };
  const Fleet fleet = testing::plain_fleet(1, 4);
  const Workload workload{"w", {elastic_job("a", 0, 2, 3000)}};
  std::vector<std::pair<double, Placement>> placed, free;
  ASSERT_TRUE(run_sia(workload, fleet, Little(), {}, 1000, &placed).ok());
  for (const auto& [at_s, placement] : placed) EXPECT_LE(placement.gpus(), 1) << at_s;
  ASSERT_TRUE(run_sia(workload, fleet, Little(), {}, 0, &free).ok());
  EXPECT_EQ(free[1].second.gpus(), 2);
}

TEST(Sia, RigidJobsGetAllTheirGpusOrNone) {
  const Fleet fleet = testing::plain_fleet(2, 4);
  Workload workload{"w", {}};
  for (int k = 0; k < 6; ++k) workload.jobs.push_back(testing::rigid_job("j" + std::to_string(k), k, 3, 300));
  const testing::PlainThroughput throughput;
  std::vector<std::pair<double, Placement>> placed;
  const auto outcome = run_sia(workload, fleet, throughput, {}, 0, &placed);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  for (const JobRecord& record : outcome->jobs) EXPECT_EQ(record.end, JobEnd::kFinished);
  for (const auto& [at_s, placement] : placed) EXPECT_TRUE(placement.empty() || placement.gpus() == 3);
}

TEST(Sia, RefusesSettingsThatMakeNoSense) {
  const Fleet fleet = testing::plain_fleet(1, 4);
  const Workload workload{"w", {elastic_job("a", 0, 4, 100)}};
  const testing::PlainThroughput throughput;
  for (const int k : {0, 1, 2, 3}) {
    SiaSettings settings;
    if (k == 0) settings.interval_s = 0;
    if (k == 1) settings.exponent = 0;
    if (k == 2) settings.lambda = 1;
    if (k == 3) settings.model = "fited";
    EXPECT_TRUE(absl::IsInvalidArgument(run_sia(workload, fleet, throughput, settings, 0, nullptr).status())) << k;
  }
}

}  // namespace
}  // namespace scalai::policy
