#pragma once
// `scalai parallelize --offload`: host traffic of a step by stage. Pure function.

#include "apps/parallelize/host_traffic.h"

namespace scalai::apps {

// Errors: those of offloaded_steps().
absl::StatusOr<std::shared_ptr<const HostTraffic>> find_host_traffic(const step::Workload& workload,
                                                                     int64_t device_bytes);

}  // namespace scalai::apps
