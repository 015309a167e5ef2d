#pragma once
// What it costs a job to get from where it is (--from) to a configuration: the exact plan, its transfers by
// ptc/plan/estimate.h, and what strategy "reshard" takes beside them (ptc/control/strategy.h): detecting a failure, planning,
// starting transfers, checking what arrived, communicators.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/parallelize_request.h"
#include "ptc/control/strategy.h"

namespace scalai::apps {

// Ranks up to which devices are chosen so that least moves; beyond, they take new ranks in order.
inline constexpr int kMostPlaced = 2048;

// The devices that a configuration runs on, in rank order: those that it has where its ranks stay as they are, else
// parallel::devices_for. What a step is priced on.
std::vector<DeviceId> devices_of(const ParallelizeRequest& request, const collection::ParallelConfig& config);
parallel::Hardware hardware_on(const ParallelizeRequest& request, const collection::ParallelConfig& config,
                               const std::vector<DeviceId>& devices);

// Ranks keep the devices of devices_of, or others that are no different for a step.
class ChangePlanner {
 public:
  // The request has a `from` and outlives this.
  static absl::StatusOr<ChangePlanner> create(const ParallelizeRequest& request);
  // Errors: state is lost that nobody else holds.
  absl::StatusOr<parallel::Change> to(const collection::ParallelConfig& config) const;

 private:
  ChangePlanner(const ParallelizeRequest& request, collection::Collection from, control::Strategy strategy)
      : request_(request), from_(std::move(from)), strategy_(std::move(strategy)) {}

  const ParallelizeRequest& request_;
  collection::Collection from_;
  control::Strategy strategy_;
};

}  // namespace scalai::apps
