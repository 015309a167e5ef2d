#pragma once
// The state of a job in a configuration: that of its model under Megatron's rules, or the collection that the
// configuration names. Pure functions; any thread may call.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/state/collection/collection.h"

namespace scalai::scenario {

// The collection on these devices, in rank order; its name is the layout's. InvalidArgument: the configuration does not
// fit the model, or another number of devices; neither happens to a listed configuration on as many devices as it
// needs.
absl::StatusOr<collection::Collection> collection_of(const JobSpec& job, const collection::ParallelConfig& config,
                                                     std::vector<DeviceId> devices);

// Bytes of the job's state, each tensor once.
int64_t state_bytes(const JobSpec& job);

}  // namespace scalai::scenario
