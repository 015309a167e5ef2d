#pragma once
// Gavel's throughput tables (scheduler/*_throughputs.json of stanford-futuredata/gavel, OSDI'20): worker type → job key
// "('ResNet-18 (batch size 16)', 1)" → "null": iterations a second of the job alone, or another job's key: [its own, the
// other's] where both share the GPUs. The number in a key is GPUs; rates are of the whole job. 0 means that it does not fit
// or was not measured. "v100_unconsolidated" is v100 with the GPUs spread over several servers.

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace scalai::sched {

struct GavelKey {
  std::string type;
  int gpus = 0;
  friend auto operator<=>(const GavelKey&, const GavelKey&) = default;
};

struct GavelRates {
  double alone = 0;
  std::map<GavelKey, std::pair<double, double>> beside;  // (own, the other's)
};

// worker type → job → rates.
using GavelTable = std::map<std::string, std::map<GavelKey, GavelRates>>;

// Errors: NotFound; InvalidArgument with all problems, by JSON pointer.
absl::StatusOr<GavelTable> read_gavel_table(const std::string& path);

}  // namespace scalai::sched
