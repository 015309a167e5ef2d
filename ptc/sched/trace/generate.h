#pragma once
// Made-up workloads and failures, from a seed.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/trace/import.h"

namespace scalai::sched {

struct GeneratorInfo {
  std::string name;  // "gavel-continuous", "poisson", "weibull", "causes"
  TraceContent content;
  std::string summary;
  std::string source;
  std::vector<TraceOption> options;
};

const std::vector<GeneratorInfo>& generators();

// `hosts` of `gpus_per_host` GPUs (host events only; all are up at the start). Same seed, same result on any machine. Errors:
// InvalidArgument with all problems of the name and the options; NotFound where an option names a file that is not there.
absl::StatusOr<Imported> generate(const std::string& name, const std::vector<std::string>& set, uint64_t seed,
                                  int hosts = 0, int gpus_per_host = 1);

}  // namespace scalai::sched
