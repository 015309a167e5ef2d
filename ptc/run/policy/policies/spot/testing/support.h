#pragma once
// For tests of this folder: a spot and an on-demand type, and runs that note who was where.

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy::testing {

inline constexpr GpuType kSpot{0};
inline constexpr GpuType kDemand{1};

// Host k of `spot` hosts of one GPU at 1 dollar, then `demand` hosts at 3 dollars.
inline Fleet spot_fleet(int spot, int demand) {
  Fleet fleet;
  fleet.types = {{.name = "spot", .price_per_gpu_hour = 1}, {.name = "od", .price_per_gpu_hour = 3}};
  for (int i = 0; i < spot; ++i) fleet.hosts.push_back({.type = kSpot, .gpus = 1});
  for (int i = 0; i < demand; ++i) fleet.hosts.push_back({.type = kDemand, .gpus = 1});
  return fleet;
}

inline FleetEvent spot_event(double at_s, FleetEvent::Kind kind, int host) {
  FleetEvent event;
  event.at_s = at_s;
  event.kind = kind;
  event.hosts = {HostId(host)};
  return event;
}

inline FleetEvent price_event(double at_s, GpuType type, double price) {
  FleetEvent event;
  event.at_s = at_s;
  event.kind = FleetEvent::Kind::kPrice;
  event.type = type;
  event.price = price;
  return event;
}

struct Stay {
  double from_s = 0;
  std::string where;  // type, "" = waits
  friend bool operator==(const Stay&, const Stay&) = default;
};
inline void PrintTo(const Stay& stay, std::ostream* out) { *out << stay.from_s << " " << stay.where; }

struct SpotRun {
  Fleet fleet;
  Availability availability;
  Workload workload;
  PlainThroughput throughput;
  double change_s = 0;

  std::vector<Stay> stays;  // of job 0
  Outcome outcome;

  // By deadline order of members: set fleet, availability and workload, then run.
  void run(Policy& policy) {
    const std::unique_ptr<jobs::ChangeModel> changes =
        jobs::make_constant_changes({.change_s = change_s, .start_s = change_s});
    jobs::Setup setup;
    setup.workload = &workload;
    setup.fleet = &fleet;
    setup.availability = &availability;
    setup.throughput = &throughput;
    setup.policy = &policy;
    setup.changes = changes.get();
    setup.watcher.placed = [this](double now_s, JobId job, const Placement& placement, JobId) {
      if (job != JobId(0)) return;
      const std::string where = placement.empty() ? "" : fleet.types[static_cast<size_t>(placement.type.value)].name;
      stays.push_back({now_s, where});
    };
    const absl::StatusOr<Outcome> result = scalai::jobs::run(setup);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    outcome = *result;
  }
};

inline Job due_job(double seconds, double deadline_s, int gpus = 1) {
  static int number = 0;
  Job job = rigid_job("job" + std::to_string(number++), 0, gpus, seconds);
  job.deadline_s = deadline_s;
  return job;
}

}  // namespace scalai::policy::testing
