#pragma once
// The configuration of a job on given GPUs and its step time: the best one of the parallelizer
// (ptc/cost/step/search.h), computed once for each (model, batch, GPU type, GPUs per host). Throughput and changes use
// the same object, so that a job trains as it was planned. Const functions with a cache. One thread.
//
// A job that gets n GPUs may use fewer, so that by the closed form more GPUs never make it slower. The step time is
// that closed form; with a step-time model (sim/simulated_step_time.h) it is a simulated step on an idle cluster, for
// the configuration that the closed form chose, as in ptc/run/control.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/step_time_model.h"
#include "ptc/run/policy/fleet.h"
#include "sim/jobs/planned/job_model.h"

namespace scalai::jobs {

struct Configuration {
  const JobModel* model = nullptr;
  collection::ParallelConfig config;
  step::Training training;
  step::StepTime time;  // closed form
  double step_s = 0;    // the step time in use: closed form or simulated
  int gpus() const { return config.world(); }
};

class Configurations {
 public:
  // Host k of the cluster is host k of the fleet (CHECK: as many hosts, enough GPUs on each). All arguments outlive
  // this object; `steps` may be null (closed form).
  Configurations(const cluster::Cluster& cluster, const policy::Fleet& fleet, const JobModels& models,
                 const step::StepTimeModel* steps = nullptr);

  // The best configuration on GPUs of one type on as few hosts as possible, or on GPUs as placed. nullptr: none fits
  // the memory or divides the model. The pointer is valid as long as this object. CHECK: the job's model is known.
  const Configuration* best(const policy::Job& job, policy::GpuType type, int gpus) const;
  const Configuration* best(const policy::Job& job, const policy::Placement& placement) const;

  const cluster::Cluster& cluster() const { return cluster_; }
  const policy::Fleet& fleet() const { return fleet_; }
  const JobModels& models() const { return models_; }
  bool simulates() const { return steps_ != nullptr; }
  int64_t searches() const { return searches_; }

  // A cluster of hosts of this type in this fabric, with so many GPUs in use on each, and these GPUs. `domains`: the
  // NVLink domain of each; empty: hosts that GPU links join fill domains one after the other.
  struct Scratch {
    cluster::Cluster cluster;
    std::vector<DeviceId> devices;
  };
  Scratch scratch(policy::GpuType type, const std::vector<int>& gpus_of_host, std::vector<int> domains = {}) const;

 private:
  struct Key {
    const JobModel* model;
    policy::GpuType type;
    std::vector<int> gpus_of_host;  // descending
    std::vector<int> domains;       // NVLink domain of each, numbered as they come; empty where hosts have none
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  const cluster::Host* host_of(policy::GpuType type) const;
  const Configuration* find(Key key) const;
  std::vector<int> filled_domains(policy::GpuType type, size_t hosts) const;
  std::unique_ptr<Configuration> look(const Key& key) const;

  const cluster::Cluster& cluster_;
  const policy::Fleet& fleet_;
  const JobModels& models_;
  const step::StepTimeModel* steps_;
  std::vector<int> host_of_type_;  // index of the first host with most GPUs, by type; -1 = no host
  mutable std::map<Key, std::unique_ptr<Configuration>> known_;
  mutable int64_t searches_ = 0;
};

}  // namespace scalai::jobs
