#pragma once
// A workload: the jobs that want a cluster's GPUs, from any trace, generator or scenario. Plain values.
//
// Work is counted in the iterations of the job's trace. A job with only a run time in its trace has work = that many
// seconds, and runs at 1 per second on the GPUs it asked for (ptc/run/scenario/trace/tables.h: duration_throughput).

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ptc/base/ids.h"

namespace scalai::policy {

using JobId = Id<struct JobTag>;     // index in Workload::jobs: order of submission, ties by the trace's order
using GpuType = Id<struct TypeTag>;  // index in Fleet::types

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct Job {
  std::string name;     // unique in the workload
  std::string type;     // key in throughput tables: "ResNet-18 (batch size 128)", "bert", a catalogue model
  double submit_s = 0;  // from the workload's start, >= 0
  int gpus = 1;         // requested; > 0
  int slices = 0;    // > 0: it asks for this part of one GPU, the compute slices of a profile (slices.h); `gpus` is 1
  int per_gpu = 1;   // as of the fleet: 7 = `gpus` counts slices
  int min_gpus = 1;  // an elastic policy stays within [min_gpus, max_gpus]; both are `gpus` for a rigid job
  int max_gpus = 1;
  double work = 1;             // iterations to do; > 0
  double duration_s = -1;      // run time alone on `gpus` GPUs in the trace; < 0: unknown
  double weight = 1;           // entitled share, relative to other jobs; > 0
  double deadline_s = kNever;  // absolute
  std::string entity;          // tenant, user or virtual cluster; "" = none
  int64_t batch = 0;           // samples an iteration; 0 = unknown
};

struct Workload {
  std::string name;
  std::vector<Job> jobs;  // by (submit_s, order in the trace)
};

}  // namespace scalai::policy
