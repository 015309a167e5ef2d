#pragma once
// Changes of state for calibration: synthetic collections whose plan moves bytes in one known way. Pure functions; any
// thread.

#include <cstdint>
#include <string>

#include "ptc/cluster/cluster.h"
#include "ptc/state/collection/collection.h"

namespace scalai::apps {

// Boxes that a device receives, in every plan: about as many as a transformer of twelve layers has tensors with
// optimizer state, so that the measured times contain the cost per box.
inline constexpr int kCalibrationBoxes = 512;

struct CalibrationPlan {
  std::string series, name;  // as in Measured (calibration.h)
  collection::Collection from, to;
};

// `bytes`: approximate bytes per device; each tensor has at least one row on each of them. All fp32.
//
// The first device of host `to` gets all state of the first device of `from`.
CalibrationPlan pair_plan(const cluster::Cluster& cluster, HostId from, HostId to, int64_t bytes);
// Each host's first device gets all state of the previous host's. At least two hosts, as for the next function.
CalibrationPlan shift_plan(const cluster::Cluster& cluster, int64_t bytes);
// In pairs of hosts, rows over their first devices become columns, as in a change of tensor parallelism. Each copies
// half of its own state and gets half of the other's. A host without a partner does nothing.
CalibrationPlan exchange_plan(const cluster::Cluster& cluster, int64_t bytes);
// Each device of the first host gets all state of the previous one. At least two devices per host.
CalibrationPlan same_host_plan(const cluster::Cluster& cluster, int64_t bytes);
// The cluster's first two devices copy half of their state: two replicas become halves.
CalibrationPlan same_device_plan(const cluster::Cluster& cluster, int64_t bytes);
// The same state on the same devices, for checkpoints: rows over all devices.
CalibrationPlan storage_plan(const cluster::Cluster& cluster, int64_t bytes);

}  // namespace scalai::apps
