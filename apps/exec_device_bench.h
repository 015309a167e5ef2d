#pragma once
// The part of `scalai exec bench` that measures devices themselves: copies of real layouts, what NCCL carries, and a
// whole reconfiguration of a model on the devices of one host. On GPUs, or in host memory.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/state_options.h"
#include "executor/bench/measurement.h"
#include "ptc/model/scaling.h"

namespace scalai::apps {

struct DeviceBenchOptions {
  std::vector<std::string> cases;   // of device_case_names()
  std::vector<std::string> models;  // empty: those of each case
  int64_t bytes = 0;                // of a copy work or message; 0: what suits the case
  int repetitions = 5;
  model::Fraction scale_model;  // of reconfigurations
  StateOptions state;           // nccl is looked at, its transport is not
  std::string folder;           // for the worker's log
};

std::vector<std::string> device_case_names();

// Adds rows to `list`. `note` is told what comes next. What is not here, NCCL or room for a model, is told on stderr and
// left out, and is the error in the end (NotFound). Errors that end it: those of the back end, of NCCL, of the workers;
// InvalidArgument (no such model).
absl::Status measure_devices(const DeviceBenchOptions& options, const std::function<void(const std::string&)>& note,
                             std::vector<executor::bench::Measurement>& list);

}  // namespace scalai::apps
