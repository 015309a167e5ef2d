#pragma once
// Files of measured rates, read into one form (formats: tables.h).

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/scenario/trace/gavel_table.h"

namespace scalai::trace {

struct RateKey {
  std::string type;
  int64_t batch = 0;  // 0 where the table does not tell batches apart
  int gpus = 0;
  friend auto operator<=>(const RateKey&, const RateKey&) = default;
};

// Of one type of GPU. Rates: iterations a second of the whole job, 0 = cannot run.
struct RateRows {
  std::string gpu;
  std::map<RateKey, double> rates;
  std::map<RateKey, double> spread;  // on more hosts than needed
  std::map<GavelKey, std::map<GavelKey, std::pair<double, double>>> beside;
};

struct RateTable {
  std::string what;  // "table gavel (simulation_throughputs.json)"
  bool by_batch = false;
  bool spread = false;  // some rows of `spread`
  std::vector<RateRows> types;
};

// Errors: unknown format; unreadable files; all problems of bad ones.
absl::StatusOr<RateTable> read_rates(const std::string& format, const std::string& path);

}  // namespace scalai::trace
