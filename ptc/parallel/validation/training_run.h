#pragma once
// Published training runs: what a row says of how which model was trained on which GPUs, and what our models say of it.

#include <map>
#include <string>
#include <vector>

#include "ptc/parallel/training.h"
#include "ptc/parallel/validation/published.h"
#include "ptc/plan/cluster.h"

namespace scalai::parallel::validation {

using Models = std::map<std::string, ModelShape>;

// One run. What the publication does not say ("search" in its column) is searched: the fastest that fits the memory.
struct TrainingRun {
  ModelShape model;
  plan::Host host;
  collection::ParallelConfig config;
  Training training;
  double tokens = 0;      // of the whole training, for days and GPU-hours
  double peak_flops = 0;  // that shares are printed of; 0 = that of the GPU kind
  bool search_micro_batch = false;
  bool search_vpp = false;

  Workload workload() const { return {model, config, training}; }
  int gpus() const { return config.world(); }
};

// Columns that describe the GPUs and links of a host, and a run.
std::vector<std::string> host_columns();
std::vector<std::string> run_columns();
plan::Host read_host(RowReader& row);
TrainingRun read_run(RowReader& row, const Models& models);

// The run with what is to be searched filled in, and its step time.
struct PricedRun {
  TrainingRun run;
  double step_s = 0;    // 0 = nothing can be priced
  std::string assumed;  // what was taken; where our memory model says it does not fit
  std::string problem;  // why nothing was
};
PricedRun price(const TrainingRun& run);

}  // namespace scalai::parallel::validation
