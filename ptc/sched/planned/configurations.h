#pragma once
// Which configuration a job takes on given GPUs, and how long its step is: the parallelizer's best
// (ptc/parallel/search.h), found once for each (model, batch, GPU type, how many on each host). Throughput and changes
// ask the same object, so that a job trains as it was planned. Const to its users; keeps answers. One thread.
//
// On as many of the GPUs as is best: a job that is given n may use fewer, so that by the closed form more GPUs never
// make it slower. What a step takes is that closed form, or, with a step-time model (sim/simulated_step_time.h), a step
// simulated on an idle cluster for the configuration that the closed form chose, as ptc/control does it.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptc/parallel/step_time_model.h"
#include "ptc/plan/cluster.h"
#include "ptc/sched/fleet.h"
#include "ptc/sched/planned/job_model.h"

namespace scalai::sched {

struct Configuration {
  const JobModel* model = nullptr;
  collection::ParallelConfig config;
  parallel::Training training;
  parallel::StepTime time;  // closed form
  double step_s = 0;        // what counts
  int gpus() const { return config.world(); }
};

class Configurations {
 public:
  // Host k of the cluster is host k of the fleet. All outlive this; `steps` may be null (closed form).
  Configurations(const plan::Cluster& cluster, const Fleet& fleet, const JobModels& models,
                 const parallel::StepTimeModel* steps = nullptr);

  // On GPUs of a type on as few hosts as they fit on; on GPUs as placed. Null: nothing fits their memory, or divides.
  const Configuration* best(const Job& job, GpuType type, int gpus) const;
  const Configuration* best(const Job& job, const Placement& placement) const;
  // The fewest GPUs of a type that some configuration fits on, up to `most`; 0 = none. Each number by itself is a
  // search.
  int least_gpus(const Job& job, GpuType type, int most) const;

  const plan::Cluster& cluster() const { return cluster_; }
  const Fleet& fleet() const { return fleet_; }
  const JobModels& models() const { return models_; }
  bool simulates() const { return steps_ != nullptr; }
  int64_t searches() const { return searches_; }

  // A cluster of hosts of this type in this fabric, so many GPUs used on each, and these GPUs.
  struct Scratch {
    plan::Cluster cluster;
    std::vector<DeviceId> devices;
  };
  Scratch scratch(GpuType type, const std::vector<int>& gpus_of_host) const;

 private:
  struct Key {
    const JobModel* model;
    GpuType type;
    std::vector<int> gpus_of_host;  // descending
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  const plan::Host* host_of(GpuType type) const;
  const Configuration* find(const JobModel& model, GpuType type, std::vector<int> gpus_of_host) const;
  std::unique_ptr<Configuration> look(const Key& key) const;

  const plan::Cluster& cluster_;
  const Fleet& fleet_;
  const JobModels& models_;
  const parallel::StepTimeModel* steps_;
  std::vector<int> host_of_type_;  // the largest, the first of these; -1 = no host
  mutable std::map<Key, std::unique_ptr<Configuration>> known_;
  mutable int64_t searches_ = 0;
};

}  // namespace scalai::sched
