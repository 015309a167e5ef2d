#pragma once
// Choice of devices for a configuration, and the order of its ranks on them. Pure functions; any thread may call them.

#include <map>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/training.h"
#include "ptc/state/collection/layout_name.h"

namespace scalai::step {

// Rate of large matrix products on a GPU, in FLOP/s: peak × the share of the peak that they reach.
double matrix_rate(const cluster::GpuKind& gpu, Math math);

// Speed of each degraded device as a share of its nominal speed. A device without an entry runs at 1.
using Speeds = std::map<DeviceId, double>;

// Sorts devices host by host, the fastest host first. A host's rate is matrix_rate × its devices' share of nominal
// speed. Devices of one host with different shares count as separate hosts; at equal rates an undivided host comes
// first. Other ties keep the given order. Returns `devices` unchanged if all are of one GPU kind and price and none is
// degraded.
std::vector<DeviceId> fastest_first(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster,
                                    Math math = Math::kBF16, const Speeds& speed = {});

// The devices that a job of `gpus` GPUs may use: the first `gpus` of fastest_first(free), or all if fewer are free.
// `named`: `free` is in an order that the user asked for, and the result keeps it. Otherwise equally fast hosts fill up
// in the order of device numbers.
std::vector<DeviceId> devices_to_use(const std::vector<DeviceId>& free, int gpus, bool named,
                                     const cluster::Cluster& cluster, Math math, const Speeds& speed);

// The devices of a configuration in rank order, one for each rank, the fastest first. Tensor-parallel groups stay whole
// inside a host and of one speed if possible; else whole inside a host; else in the order of fastest_first.
// CHECK: `usable` has at least as many devices as the configuration has ranks.
std::vector<DeviceId> devices_for(const collection::ParallelConfig& config, const std::vector<DeviceId>& usable,
                                  const cluster::Cluster& cluster, Math math = Math::kBF16, const Speeds& speed = {});

// One host for each pair of GPU kind and price per GPU among the hosts of these devices, in order of appearance.
std::vector<cluster::Host> kinds_of_hosts(const std::vector<DeviceId>& devices, const cluster::Cluster& cluster);

}  // namespace scalai::step
