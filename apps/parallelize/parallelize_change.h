#pragma once
// The cost of a change from the present layout (--from) to a configuration: the exact plan, the time of its transfers
// (ptc/plan/estimate.h), and the other costs of strategy "reshard" (ptc/run/scenario/strategy.h): detection of a
// failure, planning, start of transfers, verification, communicators. One thread.

#include "absl/status/statusor.h"
#include "apps/parallelize/parallelize_request.h"
#include "ptc/run/scenario/strategy.h"

namespace scalai::apps {

// Up to this number of ranks, devices are chosen for the fewest moved bytes; above it, in order.
inline constexpr int kMostPlaced = 2048;

// The devices of a configuration, in rank order: the present ones if all ranks keep their coordinates, otherwise
// step::devices_for. The step time is computed on them.
std::vector<DeviceId> devices_of(const ParallelizeRequest& request, const collection::ParallelConfig& config);
step::Hardware hardware_on(const ParallelizeRequest& request, const collection::ParallelConfig& config,
                           const std::vector<DeviceId>& devices);

// Plans changes. Ranks get the devices of devices_of, or others with an equal step.
class ChangePlanner {
 public:
  // CHECK: the request has a `from`. The request outlives the planner.
  static absl::StatusOr<ChangePlanner> create(const ParallelizeRequest& request);
  // Errors: lost state without another holder.
  absl::StatusOr<step::Change> to(const collection::ParallelConfig& config) const;

 private:
  ChangePlanner(const ParallelizeRequest& request, collection::Collection from, scenario::Strategy strategy)
      : request_(request), from_(std::move(from)), strategy_(std::move(strategy)) {}

  const ParallelizeRequest& request_;
  collection::Collection from_;
  scenario::Strategy strategy_;
};

}  // namespace scalai::apps
