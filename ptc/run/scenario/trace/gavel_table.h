#pragma once
// Gavel's throughput tables (scheduler/*_throughputs.json of stanford-futuredata/gavel, OSDI'20). Format: worker type →
// job key "('ResNet-18 (batch size 16)', 1)" → "null": iterations per second of the job alone, or the key of another
// job: [own rate, the other's rate] on shared GPUs. The number in a key is the number of GPUs; rates are of the whole
// job. 0 means that it does not fit or was not measured. "v100_unconsolidated" is v100 with the GPUs on several
// servers. Values; any thread may call the function.

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace scalai::trace {

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

// NotFound: the file cannot be opened. InvalidArgument: all problems, with JSON pointers.
absl::StatusOr<GavelTable> read_gavel_table(const std::string& path);

}  // namespace scalai::trace
