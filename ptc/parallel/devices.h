#pragma once
// Which of the devices that there are a configuration takes, and what they are.

#include <map>
#include <vector>

#include "ptc/collection/layout_name.h"
#include "ptc/parallel/training.h"
#include "ptc/plan/cluster.h"

namespace scalai::parallel {

// What a GPU does of large matrix products: its peak times the share of it that they reach; FLOPs a second.
double matrix_rate(const plan::GpuKind& gpu, Math math);

// Share of nominal of degraded devices.
using Speeds = std::map<DeviceId, double>;

// The devices host by host, the fastest first (matrix_rate times their share of it; of equal ones those whose host has no
// slower ones among these); otherwise in the order given.
std::vector<DeviceId> fastest_first(const std::vector<DeviceId>& devices, const plan::Cluster& cluster,
                                    Math math = Math::kBF16, const Speeds& speed = {});

// The devices that a configuration takes, in rank order: the fastest first, tensor-parallel groups whole inside hosts and
// of one speed while that is possible, then whole inside hosts, else as they come. As many as ranks; CHECK: there are
// enough.
std::vector<DeviceId> devices_for(const collection::ParallelConfig& config, const std::vector<DeviceId>& usable,
                                  const plan::Cluster& cluster, Math math = Math::kBF16, const Speeds& speed = {});

// The hosts of these devices, one of each GPU kind and price a GPU, in the order in which they come first.
std::vector<plan::Host> kinds_of_hosts(const std::vector<DeviceId>& devices, const plan::Cluster& cluster);

}  // namespace scalai::parallel
