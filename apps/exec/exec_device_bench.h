#pragma once
// The part of `scalai exec bench` that measures devices: copies of real layouts, NCCL, and a whole reconfiguration of a
// model on the devices of one host. On GPUs, or in host memory. One thread.

#include <functional>
#include <string>
#include <vector>

#include "apps/common/runs/state_options.h"
#include "executor/bench/measurement.h"
#include "ptc/state/model/scaling.h"

namespace scalai::apps {

struct DeviceBenchOptions {
  std::vector<std::string> cases;   // from device_case_names()
  std::vector<std::string> models;  // empty: those of each case
  int64_t bytes = 0;                // of a copy work or message; 0: the default of the case
  int repetitions = 5;
  model::Fraction scale_model;  // of reconfigurations
  StateOptions state;           // its nccl counts, its transport does not
  std::string folder;           // for the worker's log
};

std::vector<std::string> device_case_names();

// Appends rows to `list`; calls `note` before each measurement. A missing part (NCCL, or room for a model) is reported
// on stderr and skipped; the result is NotFound then. Errors that end it: those of the back end, NCCL and workers;
// InvalidArgument: no such model.
absl::Status measure_devices(const DeviceBenchOptions& options, const std::function<void(const std::string&)>& note,
                             std::vector<executor::bench::Measurement>& list);

}  // namespace scalai::apps
