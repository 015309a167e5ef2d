#pragma once
// Published training runs: model, training and GPUs of a row, and our prediction for it. Values; any thread.

#include <map>
#include <string>
#include <vector>

#include "labs/validation/model/published.h"
#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/software.h"
#include "ptc/cost/step/training.h"

namespace scalai::step::validation {

using Models = std::map<std::string, ModelShape>;

// One run. A fact marked "search" in its column is searched: the fastest value that fits the memory.
struct TrainingRun {
  ModelShape model;
  cluster::Host host;
  collection::ParallelConfig config;
  Training training;
  double tokens = 0;            // of the whole training, for days and GPU-hours
  double ring_bytes_per_s = 0;  // all rings of a host to others, where it was measured
  double peak_flops = 0;        // peak for printed shares; 0 = that of the GPU kind
  std::string software;         // that trained; "": the table does not say
  bool search_micro_batch = false;
  bool search_vpp = false;

  Workload workload() const { return {model, config, training}; }
  int gpus() const { return config.world(); }
};

// Columns for a run.
std::vector<std::string> run_columns();
cluster::Host read_host(RowReader& row);
TrainingRun read_run(RowReader& row, const Models& models);

// The run with all searched values, and its step time.
struct PricedRun {
  TrainingRun run;
  double step_s = 0;    // 0 = no prediction
  std::string assumed;  // the assumptions; also if the memory model says that the run does not fit
  std::string problem;  // the reason of a missing prediction
};
PricedRun price(const TrainingRun& run);

// The run as somebody prices it who gives model, GPUs, layout, micro-batch, batch, sequence and precision alone. All
// else is of `software`; recomputation is the fastest of none, selective and full that fits the memory, to within the
// error of peaks (kMemoryError), as for `scalai parallelize --layout`.
PricedRun price_by_preset(const TrainingRun& run, const Software& software);

}  // namespace scalai::step::validation
