#include "ptc/run/policy/policies/goodput/pollux.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/goodput/beliefs.h"
#include "ptc/run/policy/policies/goodput/testing/profiles.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace {

PolluxSettings quick() {
  PolluxSettings settings;
  settings.search = {.population = 20, .generations = 20, .avoid_interference = true};
  return settings;
}

using Placed = std::vector<std::tuple<double, int, Placement>>;

absl::StatusOr<Outcome> run_pollux(const Workload& workload, const Fleet& fleet, const Throughput& throughput,
                                   const PolluxSettings& settings, uint64_t seed, double change_s,
                                   Placed* placed = nullptr, const Availability* availability = nullptr) {
  const auto policy = make_pollux(settings, seed);
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
    if (placed != nullptr) placed->emplace_back(now_s, job.value, placement);
  };
  return run(setup);
}

Job elastic_job(int k, double submit_s, int most, double work) {
  Job job = testing::rigid_job("j" + std::to_string(k), submit_s, 1, work);
  job.max_gpus = most;
  return job;
}

TEST(Pollux, GrowsAJobToTwiceWhatItHasTrainedOn) {
  const Workload workload{"w", {elastic_job(0, 10, 16, 4000)}};
  const testing::PlainThroughput throughput;
  Placed placed;
  const auto outcome = run_pollux(workload, testing::plain_fleet(4, 4), throughput, quick(), 1, 5, &placed);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  std::vector<int> gpus;
  for (const auto& [at_s, job, placement] : placed) {
    EXPECT_TRUE(placement.empty() || std::fmod(at_s, 60) == 0) << at_s;
    if (!placement.empty()) gpus.push_back(placement.gpus());
  }
  ASSERT_GE(gpus.size(), 5U);
  EXPECT_EQ(gpus.front(), 1);
  int most = 1;
  for (const int now : gpus) {
    EXPECT_LE(now, 2 * most);
    most = std::max(most, now);
  }
  EXPECT_EQ(most, 16);
}

TEST(Pollux, SharesFairlyAmongEqualJobs) {
  Workload workload{"w", {}};
  for (int k = 0; k < 4; ++k) workload.jobs.push_back(elastic_job(k, 0, 16, 20000));
  const testing::PlainThroughput throughput;
  const auto outcome = run_pollux(workload, testing::plain_fleet(4, 4), throughput, quick(), 1, 30);
  ASSERT_TRUE(outcome.ok());
  for (const JobRecord& record : outcome->jobs) {
    EXPECT_NEAR(record.finish_s, 5000, 1500);  // 20,000 on 4 GPUs each
  }
}

TEST(Pollux, SameSeedSameRun) {
  Random random(4);
  Workload workload{"w", {}};
  for (int k = 0; k < 12; ++k) {
    workload.jobs.push_back(elastic_job(k, k * 40.0, 8, 500 + random.uniform() * 3000));
  }
  const testing::PlainThroughput throughput;
  Placed first, second, third;
  const Fleet fleet = testing::plain_fleet(3, 4);
  ASSERT_TRUE(run_pollux(workload, fleet, throughput, quick(), 7, 30, &first).ok());
  ASSERT_TRUE(run_pollux(workload, fleet, throughput, quick(), 7, 30, &second).ok());
  ASSERT_TRUE(run_pollux(workload, fleet, throughput, quick(), 8, 30, &third).ok());
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
}

TEST(Pollux, ServesRigidJobsSeveralTypesAndHostsThatFail) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Fleet fleet = testing::plain_fleet(3, 4);
    fleet.types.push_back({"fast", 0});
    fleet.hosts.insert(fleet.hosts.end(), 2, {GpuType(1), 2});
    Workload workload{"w", {}};
    for (int k = 0; k < 15; ++k) {
      Job job = elastic_job(k, k * 50.0, 8, 200 + random.uniform() * 800);
      if (random.below(2) == 0)
        job = testing::rigid_job(job.name, job.submit_s, 1 + static_cast<int>(random.below(6)), 300);
      workload.jobs.push_back(job);
    }
    Availability availability;
    availability.events.push_back({400, FleetEvent::Kind::kFailed, {HostId(0)}, 0, {}, 0, ""});
    availability.events.push_back({900, FleetEvent::Kind::kUp, {HostId(0)}, 0, {}, 0, ""});
    const testing::PlainThroughput throughput({1, 2});
    const auto outcome = run_pollux(workload, fleet, throughput, quick(), seed, 10, nullptr, &availability);
    ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
    for (const JobRecord& record : outcome->jobs) EXPECT_EQ(record.end, JobEnd::kFinished);
  }
}

TEST(Pollux, RefusesSettingsThatMakeNoSense) {
  const Workload workload{"w", {elastic_job(0, 0, 4, 100)}};
  const testing::PlainThroughput throughput;
  for (const int k : {0, 1, 2, 3}) {
    PolluxSettings settings = quick();
    if (k == 0) settings.interval_s = 0;
    if (k == 1) settings.exponent = 0;
    if (k == 2) settings.search.population = 1;
    if (k == 3) settings.model = "fited";
    EXPECT_TRUE(
        absl::IsInvalidArgument(run_pollux(workload, testing::plain_fleet(1, 4), throughput, settings, 1, 0).status()))
        << k;
  }
}

// A job that can run nowhere does not keep the clock ticking for ever.
TEST(Pollux, GivesUpOnWhatCannotRun) {
  class Nothing final : public Throughput {
   public:
    Rate rate(const Job&, GpuType, int, double) const override { return {}; }
    std::string description() const override { return "nothing"; }
  };
  const Workload workload{"w", {elastic_job(0, 0, 4, 100)}};
  const Nothing throughput;
  const auto outcome = run_pollux(workload, testing::plain_fleet(1, 4), throughput, quick(), 1, 0);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_EQ(outcome->jobs[0].end, JobEnd::kUnfinished);
}

TEST(Pollux, FitsWhatJobsShowOnAGoodputSource) {
  const testing::TinyProfiles tiny;
  Workload workload{"w", {elastic_job(0, 0, 4, 1), elastic_job(1, 100, 4, 1)}};
  for (Job& job : workload.jobs) job.type = "tiny";
  const Fleet fleet = testing::plain_fleet(2, 2);
  ASSERT_TRUE(pollux_set_work(tiny.folder(), BatchMode::kAdaptive, &workload).ok());
  const auto source = pollux_throughput(tiny.folder(), fleet, workload, BatchMode::kAdaptive);
  ASSERT_TRUE(source.ok());
  PolluxSettings oracle = quick();
  oracle.model = "oracle";
  for (const PolluxSettings& settings : {quick(), oracle}) {
    const auto outcome = run_pollux(workload, fleet, **source, settings, 1, 30);
    ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
    for (const JobRecord& record : outcome->jobs) EXPECT_EQ(record.end, JobEnd::kFinished);
  }
}

}  // namespace
}  // namespace scalai::policy
