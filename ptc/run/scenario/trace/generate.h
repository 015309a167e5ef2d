#pragma once
// Synthetic workloads and host failures from a seed. Functions without state; any thread may call them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/scenario/trace/import.h"

namespace scalai::trace {

struct GeneratorInfo {
  std::string name;  // "gavel-continuous", "poisson", "weibull", "causes", "resampled"
  TraceContent content;
  std::string summary;
  std::string source;
  std::vector<TraceOption> options;
};

// All generators; static storage.
const std::vector<GeneratorInfo>& generators();

// Runs a generator. `set` holds "option=value". `hosts` and `gpus_per_host` are for host events only; all hosts are up
// at the start, but for "resampled". The same seed gives the same result on any machine. InvalidArgument: all problems
// of the name and the options. NotFound: a file named by an option does not exist.
absl::StatusOr<Imported> generate(const std::string& name, const std::vector<std::string>& set, uint64_t seed,
                                  int hosts = 0, int gpus_per_host = 1);

}  // namespace scalai::trace
