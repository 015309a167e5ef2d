#pragma once
// For tests of planned changes, here and in sim/: small clusters and the fleets that they are, jobs with a model.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "sim/jobs/planned/configurations.h"

namespace scalai::jobs::testing {

struct Machine {
  int hosts = 4;
  int gpus = 4;  // a host
  int nics = 4;
  double nic_bytes_per_s = 25e9;
  std::string gpu = "a100-80g";
};

inline cluster::Cluster cluster_of(const Machine& machine) {
  cluster::Cluster cluster{.name = "test"};
  for (int h = 0; h < machine.hosts; ++h) {
    cluster::Host host{
        .first_device = h * machine.gpus, .gpus = machine.gpus, .gpu = *cluster::find_gpu_kind(machine.gpu)};
    host.gpu_link_bytes_per_s = host.gpu.link_bytes_per_s;
    host.pcie_bytes_per_s = host.gpu.pcie_bytes_per_s;
    host.nics = machine.nics;
    host.nic_bytes_per_s = machine.nic_bytes_per_s;
    cluster.hosts.push_back(host);
  }
  cluster.storage_read_bytes_per_s = 20e9;
  cluster.storage_write_bytes_per_s = 20e9;
  return cluster;
}

// GPUs of hosts that follow one another, from this one on: as many on each as there are, or fewer on the last.
inline policy::Placement hosts_from(const cluster::Cluster& cluster, int first, int gpus) {
  policy::Placement placement{.type = policy::GpuType(0), .hosts = {}};
  for (int h = first; gpus > 0; ++h) {
    const int share = std::min(gpus, cluster.hosts[static_cast<size_t>(h)].gpus);
    placement.hosts.push_back({HostId(h), share});
    gpus -= share;
  }
  return placement;
}

// A cluster, its fleet, and jobs that train catalogue models on it. Not copied: its parts refer to each other.
class World {
 public:
  explicit World(const Machine& machine, const JobModelSpec& common = {}) : World(cluster_of(machine), common) {}
  explicit World(cluster::Cluster given, JobModelSpec common = {})
      : cluster(std::move(given)), fleet(policy::fleet_of(cluster)), common_(std::move(common)) {}
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A job of this model; configurations are looked up anew after it.
  policy::Job add(const std::string& model, int64_t batch, double work = 100) {
    policy::Job job{.name = "job" + std::to_string(workload.jobs.size()), .type = model, .gpus = 8, .max_gpus = 64};
    job.work = work;
    job.batch = batch;
    workload.jobs.push_back(job);
    absl::StatusOr<JobModels> made = JobModels::of(workload, common_);
    SCALAI_CHECK(made.ok(), message_of(made.status()));
    models = *std::move(made);
    configurations = std::make_unique<Configurations>(cluster, fleet, models);
    return job;
  }

  cluster::Cluster cluster;
  policy::Fleet fleet;
  policy::Workload workload;
  JobModels models;
  std::unique_ptr<Configurations> configurations;

 private:
  JobModelSpec common_;
};

}  // namespace scalai::jobs::testing
