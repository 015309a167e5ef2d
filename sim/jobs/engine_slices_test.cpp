// Jobs that ask for parts of GPUs in the engine.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <deque>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/slices.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::jobs {
namespace engine_slices_test {

using ::testing::IsEmpty;

policy::Fleet sliced_fleet(int hosts, int gpus) {
  policy::Fleet fleet = policy::testing::plain_fleet(hosts, gpus * policy::kSlicesOfGpu, 7);
  fleet.per_gpu = policy::kSlicesOfGpu;
  return fleet;
}

// First come, first served by numbers of slices: it does not know which of them lie side by side.
class ByNumber : public policy::Policy {
 public:
  policy::PolicyTraits traits() const override { return {}; }
  absl::StatusOr<policy::Decision> decide(const policy::View& view, std::span<const policy::Event> events) override {
    policy::Decision decision;
    for (const policy::Event& event : events) {
      if (event.kind == policy::Event::Kind::kFinished || event.kind == policy::Event::Kind::kLost)
        used_ -= view.job(event.job).gpus;
      if (event.kind == policy::Event::Kind::kSubmitted || event.kind == policy::Event::Kind::kLost)
        line_.push_back(event.job);
    }
    while (!line_.empty() && used_ + view.job(line_.front()).gpus <= view.capacity(policy::GpuType(0))) {
      const int gpus = view.job(line_.front()).gpus;
      decision.grants.push_back(
          {.job = line_.front(), .type = policy::GpuType(0), .gpus = gpus, .hosts = {}, .beside = {}});
      used_ += gpus;
      line_.pop_front();
    }
    return decision;
  }

 private:
  std::deque<policy::JobId> line_;
  int used_ = 0;
};

policy::Job part(double submit_s, int slices, double seconds) {
  policy::Job job = policy::testing::rigid_job(fmt::format("{}s-{}", submit_s, slices), submit_s, slices, seconds);
  job.slices = slices % policy::kSlicesOfGpu == 0 ? 0 : slices;
  job.per_gpu = policy::kSlicesOfGpu;
  return job;
}

absl::StatusOr<policy::Outcome> play(const policy::Fleet& fleet, const policy::Workload& workload,
                                     const policy::Availability& availability, const Watcher& watcher) {
  ByNumber policy;
  const policy::testing::PlainThroughput throughput;
  const auto changes = make_constant_changes({});
  return run({.workload = &workload,
              .fleet = &fleet,
              .availability = &availability,
              .throughput = &throughput,
              .policy = &policy,
              .changes = changes.get(),
              .options = {},
              .watcher = watcher});
}

// One GPU. 3g + 3g take its memory: 1g waits for it, though one compute slice is free, and 2g waits behind it.
TEST(EngineSlices, ByHand) {
  const policy::Fleet fleet = sliced_fleet(1, 1);
  const policy::Workload workload{
      .name = "", .jobs = {part(0, 3, 100), part(0, 3, 200), part(10, 1, 50), part(120, 2, 30), part(130, 7, 10)}};
  const auto outcome = play(fleet, workload, {}, {});
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  const std::vector<policy::JobRecord>& jobs = outcome->jobs;
  EXPECT_EQ(jobs[2].first_start_s, 100) << "when the first 3g has ended";
  EXPECT_EQ(jobs[2].finish_s, 150);
  EXPECT_EQ(jobs[3].first_start_s, 120) << "3g + 1g + 2g";
  EXPECT_EQ(jobs[4].first_start_s, 200);
  EXPECT_EQ(outcome->end_s, 210);
  EXPECT_DOUBLE_EQ(jobs[1].attained_gpu_s, 200 * 3 / 7.0);
  EXPECT_DOUBLE_EQ(jobs[4].attained_gpu_s, 10);
  EXPECT_DOUBLE_EQ(jobs[4].cost, 10 / 3600.0 * 7);
  EXPECT_DOUBLE_EQ(outcome->up_gpu_s, 210);
  EXPECT_DOUBLE_EQ(outcome->training_gpu_s, (300 + 600 + 50 + 60 + 70) / 7.0);
  EXPECT_DOUBLE_EQ(outcome->cost, 210 / 3600.0 * 7);
  ASSERT_TRUE(outcome->free);
  EXPECT_DOUBLE_EQ(outcome->free->gpu_s, 210 - (300 + 600 + 50 + 60 + 70) / 7.0);
  EXPECT_FALSE(outcome->free->unusable_gpu_s);
  EXPECT_DOUBLE_EQ(jobs[2].queue_free_gpu_s, 90 * 1 / 7.0);
}

// Three GPUs, each with a 3g and a 4g; of each one ends at 10 s. 10 slices are free then, but no whole GPU: the 7g
// waits for the 3g that ends at 100 s, and the 1g that is granted later waits behind it, though it fits.
TEST(EngineSlices, NobodyOvertakesWhoWaitsForSlices) {
  const policy::Fleet fleet = sliced_fleet(1, 3);
  const policy::Workload workload{.name = "",
                                  .jobs = {part(0, 3, 100), part(0, 4, 10), part(0, 4, 500), part(0, 3, 10),
                                           part(0, 4, 500), part(0, 3, 10), part(11, 7, 50), part(12, 1, 50)}};
  const auto outcome = play(fleet, workload, {}, {});
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_EQ(outcome->jobs[6].first_start_s, 100);
  EXPECT_EQ(outcome->jobs[7].first_start_s, 100);
}

// Hosts that fail, jobs of all sizes: at every moment the slices in use are allowed, apart from the engine's ledger.
TEST(EngineSlices, RandomRunsAreAllowed) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int hosts = static_cast<int>(random.between(1, 4));
    const policy::Fleet fleet = sliced_fleet(hosts, 2);
    policy::Workload workload;
    double at_s = 0;
    for (int k = 0; k < 60; ++k) {
      constexpr int kSizes[] = {1, 1, 1, 2, 2, 3, 4, 7, 14};
      workload.jobs.push_back(part(at_s, kSizes[random.below(9)], static_cast<double>(random.between(1, 200))));
      workload.jobs.back().name += fmt::format("-{}", k);
      at_s += static_cast<double>(random.below(40));
    }
    policy::Availability availability;
    for (int k = 0; k < 6; ++k) {
      const HostId host(random.below(hosts));
      availability.events.push_back(
          {.at_s = 100.0 * k + 50, .kind = policy::FleetEvent::Kind::kFailed, .hosts = {host}});
      availability.events.push_back({.at_s = 100.0 * k + 90, .kind = policy::FleetEvent::Kind::kUp, .hosts = {host}});
    }
    std::map<policy::JobId, policy::Placement> now;
    std::vector<std::string> problems;
    Watcher watcher;
    watcher.placed = [&](double now_s, policy::JobId job, const policy::Placement& placement, policy::JobId) {
      now[job] = placement;
      int sum = 0;
      for (const policy::Slice& slice : placement.slices) sum += slice.slices;
      if (sum != placement.gpus()) problems.push_back(fmt::format("{}: {} of {}", now_s, sum, placement.gpus()));
      if (sum != 0 && sum != workload.jobs[static_cast<size_t>(job.value)].gpus) problems.emplace_back("another size");
    };
    watcher.training = [&](double now_s, policy::JobId) {
      std::map<std::pair<HostId, int>, int> taken;
      for (const auto& [job, placement] : now) {
        for (const policy::Slice& slice : placement.slices) {
          const policy::SliceProfile& profile = *policy::slice_profile(slice.slices);
          int& mask = taken[{slice.host, slice.gpu}];
          if (std::count(profile.starts.begin(), profile.starts.end(), slice.start) != 1 || slice.gpu > 1)
            problems.push_back(fmt::format("{}: {}g at {}", now_s, slice.slices, slice.start));
          if ((mask & slice_bits(profile, slice.start)) != 0) problems.push_back(fmt::format("{}: twice", now_s));
          mask |= slice_bits(profile, slice.start);
        }
      }
    };
    watcher.ended = [&](double, const policy::Job&, const policy::JobRecord& record) { now.erase(record.job); };
    const auto outcome = play(fleet, workload, availability, watcher);
    ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
    EXPECT_THAT(problems, IsEmpty());
    double held = 0;
    for (const policy::JobRecord& record : outcome->jobs) {
      held += record.attained_gpu_s;
      EXPECT_NE(record.end, policy::JobEnd::kUnfinished);
    }
    EXPECT_NEAR(held, outcome->training_gpu_s + outcome->changing_gpu_s, 1e-6 * (1 + held));
  }
}

}  // namespace engine_slices_test
}  // namespace scalai::jobs
