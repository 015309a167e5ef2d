#pragma once
// The changes of state that calibration times: synthetic collections between which a plan moves bytes in one known way.

#include <cstdint>
#include <string>

#include "ptc/collection/collection.h"
#include "ptc/plan/cluster.h"

namespace scalai::apps {

// Boxes that a device receives, whatever the plan: about as many as a transformer of twelve layers has tensors with its
// optimizer's state, so that what a plan costs for each box is in what is measured.
inline constexpr int kCalibrationBoxes = 512;

struct CalibrationPlan {
  std::string series, name;  // as in Measured (calibration.h)
  collection::Collection from, to;
};

// `bytes`: what a device holds, about: each tensor has at least a row on each of them. All fp32.
//
// The first device of a host gets all from the first one of another.
CalibrationPlan pair_plan(const plan::Cluster& cluster, HostId from, HostId to, int64_t bytes);
// Each host's first device gets all of the one before. At least two hosts, as for the next.
CalibrationPlan shift_plan(const plan::Cluster& cluster, int64_t bytes);
// Two hosts each: rows over their first devices become columns, as where tensor parallelism changes. Each copies half of
// its own and gets half of the other's. A host without a neighbour does nothing.
CalibrationPlan exchange_plan(const plan::Cluster& cluster, int64_t bytes);
// Each device of the first host gets all of the one before it. At least two devices a host.
CalibrationPlan same_host_plan(const plan::Cluster& cluster, int64_t bytes);
// The cluster's first two devices copy half of what they have: two replicas become halves.
CalibrationPlan same_device_plan(const plan::Cluster& cluster, int64_t bytes);
// The same state on the same devices, for checkpoints: rows over all devices.
CalibrationPlan storage_plan(const plan::Cluster& cluster, int64_t bytes);

}  // namespace scalai::apps
