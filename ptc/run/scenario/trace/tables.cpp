#include "ptc/run/scenario/trace/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/internal/rate_files.h"

namespace scalai::trace {
namespace {

// Rates by GPUs, ascending.
using Curve = std::vector<std::pair<int, double>>;

double scaled(double rate, int from, int to, Beyond beyond) {
  const double ratio = static_cast<double>(to) / from;
  switch (beyond) {
    case Beyond::kRefuse: return 0;
    case Beyond::kNearest: return to > from ? rate : 0;
    case Beyond::kLinear: return rate * ratio;
    case Beyond::kSqrt: return rate * std::sqrt(ratio);
  }
  return 0;
}

double between(const std::pair<int, double>& low, const std::pair<int, double>& high, int gpus, Beyond beyond) {
  if (beyond == Beyond::kRefuse || low.second <= 0) return 0;
  if (beyond == Beyond::kNearest) return low.second;
  if (high.second <= 0) return 0;
  return low.second + (high.second - low.second) * (gpus - low.first) / (high.first - low.first);
}

double rate_on(const Curve& curve, int gpus, Beyond beyond) {
  if (curve.empty()) return 0;
  const auto above = std::lower_bound(curve.begin(), curve.end(), gpus,
                                      [](const std::pair<int, double>& row, int wanted) { return row.first < wanted; });
  if (above == curve.end()) return scaled(curve.back().second, curve.back().first, gpus, beyond);
  if (above->first == gpus) return above->second;
  if (above == curve.begin()) return scaled(above->second, above->first, gpus, beyond);
  return between(*(above - 1), *above, gpus, beyond);
}

class DurationThroughput : public policy::Throughput {
 public:
  explicit DurationThroughput(Beyond beyond) : beyond_(beyond) {}

  policy::Rate rate(const policy::Job& job, policy::GpuType /*type*/, int gpus, double /*work_done*/) const override {
    const double own = job.duration_s > 0 ? job.work / job.duration_s : 1;
    return {gpus == job.gpus ? own : scaled(own, job.gpus, gpus, beyond_), policy::kNever};
  }
  std::string description() const override {
    return fmt::format("run times of the trace; other numbers of GPUs: {}", name_of(beyond_));
  }

 private:
  Beyond beyond_;
};

std::string row_name(const std::string& type, int64_t batch) {
  return batch > 0 ? fmt::format("{}\n{}", type, batch) : type;
}

class TableThroughput : public policy::Throughput {
 public:
  TableThroughput(RateTable table, std::vector<int> table_types, const policy::Fleet& fleet, Beyond beyond)
      : by_batch_(table.by_batch), beyond_(beyond), what_(std::move(table.what)), spread_note_(table.spread) {
    for (size_t type = 0; type < fleet.types.size(); ++type) {
      const RateRows& rows = table.types[static_cast<size_t>(table_types[type])];
      together_.push_back(curves_of(rows.rates));
      spread_.push_back(curves_of(rows.spread));
      add_pairs(static_cast<int>(type), rows);
      host_gpus_.push_back(host_gpus_of(fleet, static_cast<int>(type)));
    }
  }

  policy::Rate rate(const policy::Job& job, policy::GpuType type, int gpus, double /*work_done*/) const override {
    return {rate_on(curve_of(together_, job, type), gpus, beyond_), policy::kNever};
  }

  policy::Rate placed_rate(const policy::Job& job, const policy::Placement& placement,
                           double work_done) const override {
    const int gpus = placement.gpus();
    if (placement.hosts.size() > fewest_hosts(placement.type, gpus)) {
      const Curve& curve = curve_of(spread_, job, placement.type);
      const auto row = std::find_if(curve.begin(), curve.end(), [&](const auto& r) { return r.first == gpus; });
      if (row != curve.end() && row->second > 0) return {row->second, policy::kNever};
    }
    return rate(job, placement.type, gpus, work_done);
  }

  std::pair<double, double> shared_rate(const policy::Job& a, const policy::Job& b, policy::GpuType type,
                                        int gpus) const override {
    const int row_a = row_of(a), row_b = row_of(b);
    if (row_a < 0 || row_b < 0) return {0, 0};
    const auto found = pairs_.find(pair_key(type.value, row_a, row_b, gpus));
    return found == pairs_.end() ? std::pair<double, double>{0, 0} : found->second;
  }

  std::string description() const override {
    return fmt::format("{}, GPUs it has no row for: {}{}", what_, name_of(beyond_),
                       spread_note_ ? "; on more hosts than needed: its unconsolidated rates" : "");
  }

 private:
  int row_index(const std::string& name) {
    return row_index_.try_emplace(name, static_cast<int>(row_index_.size())).first->second;
  }
  int row_of(const policy::Job& job) const {
    // Linear programs ask for millions of pairs: no text is put together where the type says all.
    const auto found = by_batch_ ? row_index_.find(row_name(job.type, job.batch)) : row_index_.find(job.type);
    return found == row_index_.end() ? -1 : found->second;
  }

  std::vector<Curve> curves_of(const std::map<RateKey, double>& rates) {
    std::vector<Curve> curves;
    for (const auto& [key, rate] : rates) {  // ascending GPUs within a row
      const auto row = static_cast<size_t>(row_index(row_name(key.type, key.batch)));
      if (row >= curves.size()) curves.resize(row + 1);
      curves[row].emplace_back(key.gpus, rate);
    }
    return curves;
  }

  void add_pairs(int type, const RateRows& rows) {
    for (const auto& [own, others] : rows.beside) {
      for (const auto& [other, rates] : others) {
        if (other.gpus != own.gpus) continue;
        pairs_[pair_key(type, row_index(own.type), row_index(other.type), own.gpus)] = rates;
      }
    }
  }

  const Curve& curve_of(const std::vector<std::vector<Curve>>& curves, const policy::Job& job,
                        policy::GpuType type) const {
    static const Curve kNone;
    const auto& rows = curves[static_cast<size_t>(type.value)];
    const int row = row_of(job);
    return row < 0 || static_cast<size_t>(row) >= rows.size() ? kNone : rows[static_cast<size_t>(row)];
  }

  // Hosts so many GPUs of a type need at least.
  size_t fewest_hosts(policy::GpuType type, int gpus) const {
    size_t hosts = 0;
    for (const int on_host : host_gpus_[static_cast<size_t>(type.value)]) {
      if (gpus <= 0) break;
      gpus -= on_host;
      ++hosts;
    }
    return hosts;
  }

  static std::vector<int> host_gpus_of(const policy::Fleet& fleet, int type) {
    std::vector<int> gpus;
    for (const policy::HostSpec& host : fleet.hosts) {
      if (host.type.value == type) gpus.push_back(host.gpus);
    }
    std::sort(gpus.rbegin(), gpus.rend());
    return gpus;
  }

  static uint64_t pair_key(int type, int a, int b, int gpus) {
    return (static_cast<uint64_t>(type) << 56) ^ (static_cast<uint64_t>(a) << 36) ^ (static_cast<uint64_t>(b) << 16) ^
           static_cast<uint64_t>(gpus);
  }

  bool by_batch_;
  Beyond beyond_;
  std::string what_;
  bool spread_note_;
  std::unordered_map<std::string, int> row_index_;
  std::vector<std::vector<Curve>> together_, spread_;  // by GPU type, then row
  std::unordered_map<uint64_t, std::pair<double, double>> pairs_;
  std::vector<std::vector<int>> host_gpus_;  // by GPU type, descending
};

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Index in the table of a fleet's GPU type, or -1.
int table_type_of(const RateTable& table, const std::string& fleet_type) {
  const std::string full = lower(fleet_type);
  const std::string family = full.substr(0, full.find('-'));
  for (const std::string& wanted : {full, family}) {
    for (size_t i = 0; i < table.types.size(); ++i) {
      if (lower(table.types[i].gpu) == wanted) return static_cast<int>(i);
    }
  }
  return -1;
}

absl::StatusOr<std::vector<int>> match_types(const RateTable& table, const policy::Fleet& fleet) {
  std::vector<std::string> names;
  for (const RateRows& rows : table.types) names.push_back(rows.gpu);
  std::vector<int> result;
  std::string problems;
  for (const policy::TypeSpec& type : fleet.types) {
    result.push_back(table_type_of(table, type.name));
    if (result.back() < 0) problems += fmt::format("{}: has no GPU type \"{}\"\n", table.what, type.name);
  }
  if (problems.empty()) return result;
  return invalid(problems + fmt::format("  hint: it has {}", fmt::join(names, ", ")));
}

// Job types and GPUs that can run nowhere, with the number of jobs.
absl::Status check_covered(const policy::Throughput& source, const RateTable& table, const policy::Fleet& fleet,
                           const policy::Workload& workload, Beyond beyond) {
  std::map<std::string, int64_t> uncovered;
  for (const policy::Job& job : workload.jobs) {
    bool runs = false;
    for (size_t type = 0; type < fleet.types.size() && !runs; ++type) {
      runs = source.rate(job, policy::GpuType(static_cast<int64_t>(type)), job.gpus, 0).per_s > 0;
    }
    if (runs) continue;
    const std::string batch = table.by_batch ? fmt::format(" with a batch of {}", job.batch) : "";
    ++uncovered[fmt::format("\"{}\"{} on {} GPU{}", job.type, batch, job.gpus, job.gpus == 1 ? "" : "s")];
  }
  if (uncovered.empty()) return absl::OkStatus();
  std::string text;
  int shown = 0;
  for (const auto& [what, jobs] : uncovered) {
    if (++shown > 20) break;
    text += fmt::format("{}: no rate of {} ({} jobs)\n", table.what, what, jobs);
  }
  if (uncovered.size() > 20) text += fmt::format("… and {} more\n", uncovered.size() - 20);
  const char* hint = beyond == Beyond::kRefuse ? "\n  hint: beyond: nearest, linear or sqrt says how to go on" : "";
  return invalid(text + fmt::format("{} missing{}", uncovered.size(), hint));
}

}  // namespace

absl::StatusOr<Beyond> beyond_of(const std::string& name) {
  for (const Beyond beyond : {Beyond::kRefuse, Beyond::kNearest, Beyond::kLinear, Beyond::kSqrt}) {
    if (name == name_of(beyond)) return beyond;
  }
  return invalid(fmt::format("\"{}\" is none of refuse, nearest, linear, sqrt", name));
}

const char* name_of(Beyond beyond) {
  switch (beyond) {
    case Beyond::kRefuse: return "refuse";
    case Beyond::kNearest: return "nearest";
    case Beyond::kLinear: return "linear";
    case Beyond::kSqrt: return "sqrt";
  }
  return "";
}

std::unique_ptr<policy::Throughput> duration_throughput(Beyond beyond) {
  return std::make_unique<DurationThroughput>(beyond);
}

absl::StatusOr<std::unique_ptr<policy::Throughput>> table_throughput(const std::string& format, const std::string& path,
                                                                     const policy::Fleet& fleet,
                                                                     const policy::Workload& workload, Beyond beyond) {
  SCALAI_ASSIGN_OR_RETURN(RateTable table, read_rates(format, path));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<int> types, match_types(table, fleet));
  auto source = std::make_unique<TableThroughput>(table, types, fleet, beyond);
  SCALAI_RETURN_IF_ERROR(check_covered(*source, table, fleet, workload, beyond));
  return source;
}

}  // namespace scalai::trace
