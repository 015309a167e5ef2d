#pragma once
// For tests: clusters of one kind of host, jobs on them, and parts written by hand.

#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/step_time_model.h"
#include "ptc/state/model/catalogue.h"
#include "sim/iteration.h"

namespace scalai::sim::testing {

struct HostSizes {
  int gpus = 8;
  int nics = 8;
  double nic_bytes_per_s = 50e9;
};

inline cluster::Cluster cluster_of(std::string_view gpu, int hosts, const HostSizes& sizes = {}) {
  cluster::Cluster cluster{.name = "test"};
  for (int h = 0; h < hosts; ++h) {
    cluster::Host host{.first_device = h * sizes.gpus, .gpus = sizes.gpus, .gpu = *cluster::find_gpu_kind(gpu)};
    host.gpu_link_bytes_per_s = host.gpu.link_bytes_per_s;
    host.pcie_bytes_per_s = host.gpu.pcie_bytes_per_s;
    host.nics = sizes.nics;
    host.nic_bytes_per_s = sizes.nic_bytes_per_s;
    cluster.hosts.push_back(host);
  }
  return cluster;
}

// No link has a limit.
inline cluster::Cluster ideal_cluster(int hosts, int gpus) {
  cluster::Cluster cluster = cluster_of("h100-80g", hosts, {.gpus = gpus, .nics = 1, .nic_bytes_per_s = 0});
  for (cluster::Host& host : cluster.hosts) host.gpu_link_bytes_per_s = host.pcie_bytes_per_s = 0;
  return cluster;
}

// 2 hosts of 2 GPUs: 100 B/s inside, NICs of 10 B/s, one a GPU.
inline cluster::Cluster small_cluster() {
  cluster::Cluster cluster = cluster_of("h100-80g", 2, {.gpus = 2, .nics = 2, .nic_bytes_per_s = 10});
  for (cluster::Host& host : cluster.hosts) {
    host.gpu_link_bytes_per_s = 100;
    host.pcie_bytes_per_s = 0;
  }
  return cluster;
}

inline step::Communication inside(double bytes, double latency_s = 0) {
  return {.link = step::Communication::Link::kGpuLink, .latency_s = latency_s, .bytes = bytes, .seconds = 1};
}
inline step::Communication between(double bytes, double latency_s = 0) {
  return {.link = step::Communication::Link::kNetwork, .latency_s = latency_s, .bytes = bytes, .seconds = 1};
}

inline std::vector<DeviceId> devices_from(int first, int count) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < count; ++i) devices.push_back(DeviceId(first + i));
  return devices;
}

inline collection::ParallelConfig layout(std::string_view text) { return collection::parse_layout(text).value(); }

// Equal stages of equal chunks: seconds of a forward and a backward slot.
inline step::StepParts plain_parts(const collection::ParallelConfig& config, int micro_batches, double forward_s,
                                   double backward_s) {
  step::StageWork stage;
  for (int chunk = 0; chunk < config.vpp; ++chunk) {
    stage.forward.push_back({.matrix_s = forward_s, .tp = {}, .cp = {}, .ep = {}, .dp = {}});
    stage.backward.push_back({.matrix_s = backward_s, .tp = {}, .cp = {}, .ep = {}, .dp = {}});
  }
  step::StepParts parts;
  parts.stages.assign(static_cast<size_t>(config.pp), stage);
  parts.micro_batches = micro_batches;
  return parts;
}

// The step of one job with these parts on its own.
inline double step_of(const cluster::Cluster& cluster, const collection::ParallelConfig& config,
                      const step::StepParts& parts, step::Schedule schedule = step::Schedule::kOneFOneB,
                      const IterationOptions& options = {}) {
  const change::Platform platform(cluster);
  const std::vector<DeviceId> devices = devices_from(0, config.world());
  const IterationJob job{.config = config, .schedule = schedule, .devices = devices, .parts = {&parts, 1}};
  return simulate_iterations(platform, {}, {&job, 1}, options).step_s.front();
}

// A model that trains somewhere; keeps what a StepInput refers to.
struct Trained {
  step::ModelShape model;
  collection::ParallelConfig config;
  step::Training training;
  std::vector<DeviceId> devices;
  std::map<DeviceId, double> speed = {};
  std::map<std::string, double> links = {};

  step::StepInput on(const cluster::Cluster& cluster) const {
    return {model, config, training, cluster, devices, speed, links};
  }
};

inline Trained trained(std::string_view model, std::string_view layout_name, step::Training training,
                       int first_device = 0) {
  Trained job{.model = step::shape_of(model::find_model(std::string(model)).value()),
              .config = layout(layout_name),
              .training = std::move(training),
              .devices = {}};
  job.devices = devices_from(first_device, job.config.world());
  const absl::Status fits = step::check_workload({job.model, job.config, job.training});
  SCALAI_CHECK(fits.ok(), message_of(fits));
  return job;
}

}  // namespace scalai::sim::testing
