#include "ptc/run/policy/policies/goodput/elasticflow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace {

// Diminishing returns that differ from job to job; beyond 8 GPUs it gets slower.
class Diminishing final : public Throughput {
 public:
  Rate rate(const Job& job, GpuType, int gpus, double) const override {
    const double exponent = 0.5 + static_cast<double>(job.batch % 5) / 10;
    return {gpus > 8 ? 0.9 : std::pow(gpus, exponent)};
  }
  std::string description() const override { return "diminishing"; }
};

Job deadline_job(int k, double submit_s, double work, double deadline_s) {
  Job job = testing::rigid_job("j" + std::to_string(k), submit_s, 1, work);
  job.max_gpus = 16;
  job.batch = k;
  job.deadline_s = deadline_s;
  return job;
}

struct Seen {
  std::map<int, std::vector<std::pair<double, int>>> gpus;  // by job: when, how many
};

absl::StatusOr<Outcome> run_elasticflow(const Workload& workload, const Fleet& fleet, ElasticFlowSettings settings,
                                        double change_s, Seen* seen = nullptr,
                                        const Availability* availability = nullptr) {
  const Diminishing throughput;
  const auto policy = make_elasticflow(settings);
  const auto changes = jobs::make_constant_changes({change_s, change_s});
  jobs::Setup setup{.workload = &workload,
                    .fleet = &fleet,
                    .availability = availability,
                    .throughput = &throughput,
                    .policy = policy.get(),
                    .changes = changes.get(),
                    .options = {},
                    .watcher = {}};
  setup.watcher.placed = [&](double now_s, JobId job, const Placement& placement, JobId) {
    if (seen != nullptr) seen->gpus[job.value].emplace_back(now_s, placement.gpus());
  };
  return run(setup);
}

Workload random_workload(Random& random, int jobs, bool some_without) {
  Workload workload{"random", {}};
  double at = 0;
  for (int k = 0; k < jobs; ++k) {
    at += random.uniform() * 200;
    const double work = 100 + random.uniform() * 3000;
    const bool none = some_without && random.below(5) == 0;
    workload.jobs.push_back(deadline_job(k, at, work, none ? kNever : at + 60 + work * (0.3 + random.uniform())));
  }
  return workload;
}

TEST(ElasticFlow, NoAdmittedJobMissesItsDeadline) {
  int refused = 0, admitted = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Workload workload = random_workload(random, 40, true);
    const Fleet fleet = testing::plain_fleet(static_cast<int>(random.between(1, 4)), 4);
    const auto outcome = run_elasticflow(workload, fleet, {}, 0);
    ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
    for (const JobRecord& record : outcome->jobs) {
      const Job& job = workload.jobs[static_cast<size_t>(record.job.value)];
      if (record.end == JobEnd::kRefused) {
        EXPECT_LT(job.deadline_s, kNever);
        ++refused;
        continue;
      }
      ++admitted;
      EXPECT_EQ(record.end, JobEnd::kFinished);
      EXPECT_LE(record.finish_s, job.deadline_s * (1 + 1e-9)) << job.name;
    }
    EXPECT_NE(outcome->policy_remarks.find(" 0 promises given up"), std::string::npos) << outcome->policy_remarks;
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(admitted, 100);
}

// The same with changes that cost what the model says: plans have counted them.
TEST(ElasticFlow, PromisesCountTheCostOfChanges) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Workload workload = random_workload(random, 15, false);
    const auto outcome = run_elasticflow(workload, testing::plain_fleet(4, 4), {}, 10);
    ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
    int late = 0, done = 0;
    for (const JobRecord& record : outcome->jobs) {
      if (record.end != JobEnd::kFinished) continue;
      ++done;
      late += record.finish_s > workload.jobs[static_cast<size_t>(record.job.value)].deadline_s * (1 + 1e-9) ? 1 : 0;
    }
    // A plan counts the changes it makes; what others make it do may cost a job its slack.
    EXPECT_LE(late, done / 5);
  }
}

TEST(ElasticFlow, AdmitsWhatJustFitsAndRefusesWhatDoesNot) {
  const Fleet fleet = testing::plain_fleet(1, 1);
  // 600 s each on the one GPU.
  Workload workload{"w", {deadline_job(0, 0, 600, 2000), deadline_job(1, 30, 600, 1200)}};
  const auto outcome = run_elasticflow(workload, fleet, {}, 0);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_EQ(outcome->jobs[1].end, JobEnd::kFinished);  // it goes first: its deadline is earlier
  EXPECT_DOUBLE_EQ(outcome->jobs[1].finish_s, 630);
  EXPECT_DOUBLE_EQ(outcome->jobs[0].finish_s, 1200);
  workload.jobs[0].deadline_s = 1100;
  workload.jobs[1].deadline_s = 1199;
  const auto refused = run_elasticflow(workload, fleet, {}, 0);
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->jobs[1].end, JobEnd::kRefused);
  EXPECT_DOUBLE_EQ(refused->jobs[0].finish_s, 600);
  // Without admission it runs on what is left.
  const auto late = run_elasticflow(workload, fleet, {.slot_s = 60, .admission = false}, 0);
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->jobs[1].end, JobEnd::kFinished);
  EXPECT_DOUBLE_EQ(late->jobs[1].finish_s, 1200);
}

TEST(ElasticFlow, GivesPowersOfTwoAndNoMoreThanHelps) {
  const Fleet fleet = testing::plain_fleet(4, 4);
  const Workload workload{"w", {deadline_job(3, 0, 500, 5000)}};
  Seen seen;
  const auto outcome = run_elasticflow(workload, fleet, {}, 0, &seen);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(seen.gpus[0].front(), (std::pair<double, int>{0, 8}));  // 16 would be slower
}

// A failed host may cost promises, but nothing else breaks and everybody ends.
TEST(ElasticFlow, LivesOnWithFewerHosts) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Workload workload = random_workload(random, 20, true);
    Availability availability;
    for (int k = 0; k < 3; ++k) {
      const double at = random.uniform() * 1500 + 1000.0 * k;
      availability.events.push_back({at, FleetEvent::Kind::kFailed, {HostId(k)}, 0, {}, 0, ""});
    }
    availability.events.push_back({4000, FleetEvent::Kind::kUp, {HostId(0), HostId(1), HostId(2)}, 0, {}, 0, ""});
    std::sort(availability.events.begin(), availability.events.end(),
              [](const FleetEvent& a, const FleetEvent& b) { return a.at_s < b.at_s; });
    const auto outcome = run_elasticflow(workload, testing::plain_fleet(4, 4), {}, 0, nullptr, &availability);
    ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
    for (const JobRecord& record : outcome->jobs) {
      EXPECT_TRUE(record.end == JobEnd::kFinished || record.end == JobEnd::kRefused);
    }
  }
}

TEST(ElasticFlow, RefusesASlotOfNothing) {
  const Workload workload{"w", {deadline_job(0, 0, 100, 500)}};
  EXPECT_TRUE(absl::IsInvalidArgument(
      run_elasticflow(workload, testing::plain_fleet(1, 4), {.slot_s = 0, .admission = true}, 0).status()));
}

}  // namespace
}  // namespace scalai::policy
