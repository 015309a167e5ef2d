#include "labs/validation/policies/internal/sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy::validation {

absl::StatusOr<std::string> need(const std::string& data, const std::string& name) {
  const std::string path = data + "/" + name;
  std::error_code error;
  if (!data.empty() && std::filesystem::exists(path, error)) return path;
  return missing(data.empty() ? fmt::format("{} is needed, and there is no folder of public data", name)
                              : fmt::format("{} is not there", path));
}

absl::StatusOr<Outcome> run_policy(const PolicyRun& run) {
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> policy, make_policy(run.policy, run.set, run.seed));
  return run_policy(run, *policy);
}

absl::StatusOr<Outcome> run_policy(const PolicyRun& run, Policy& policy) {
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<jobs::ChangeModel> changes,
                          jobs::make_preset_changes(run.changes, *run.fleet));
  if (run.change_s >= 0) changes = jobs::make_constant_changes({.change_s = run.change_s, .start_s = run.change_s});
  jobs::Setup setup;
  setup.workload = run.workload;
  setup.fleet = run.fleet;
  setup.availability = run.availability;
  setup.throughput = run.throughput;
  setup.policy = &policy;
  setup.changes = changes.get();
  setup.options.until_s = run.until_s;
  setup.watcher = run.watcher;
  return jobs::run(setup);
}

Rate RatesByJob::rate(const Job& job, GpuType type, int gpus, double /*work_done*/) const {
  const auto& by_gpus = rates_[static_cast<size_t>(job.batch)][static_cast<size_t>(type.value)];
  return {gpus >= 1 && gpus <= static_cast<int>(by_gpus.size()) ? by_gpus[static_cast<size_t>(gpus - 1)] : 0};
}

void Tally::add(double reference, double ours, double within) {
  ++count_;
  equal_ += std::abs(reference - ours) <= within ? 1 : 0;
  reference_ += reference;
  ours_ += ours;
}

void Tally::rows(const std::string& set, const std::string& policy, const std::string& cases, const std::string& unit,
                 double tolerance, std::vector<ReferenceRow>& out) const {
  out.push_back({.set = set,
                 .policy = policy,
                 .name = fmt::format("{}: {}, equal", policy, cases),
                 .unit = "count",
                 .reference = static_cast<double>(count_),
                 .ours = static_cast<double>(equal_),
                 .tolerance = 0,
                 .note = ""});
  out.push_back({.set = set,
                 .policy = policy,
                 .name = fmt::format("{}: {}, sum", policy, cases),
                 .unit = unit,
                 .reference = reference_,
                 .ours = ours_,
                 .tolerance = tolerance,
                 .note = ""});
}

Fleet fleet_of(const std::vector<std::pair<std::string, int>>& types, int gpus_per_host) {
  Fleet fleet;
  for (const auto& [name, gpus] : types) {
    const GpuType type(static_cast<int64_t>(fleet.types.size()));
    fleet.types.push_back({.name = name, .price_per_gpu_hour = 0});
    for (int left = gpus; left > 0; left -= gpus_per_host) {
      fleet.hosts.push_back({.type = type, .gpus = std::min(left, gpus_per_host)});
    }
  }
  return fleet;
}

std::vector<double> completion_times_s(const Workload& workload, const Outcome& outcome) {
  std::vector<double> times;
  for (const JobRecord& record : outcome.jobs) {
    if (record.end != JobEnd::kFinished) continue;
    times.push_back(record.finish_s - workload.jobs[static_cast<size_t>(record.job.value)].submit_s);
  }
  return times;
}

double mean(const std::vector<double>& values) {
  SCALAI_CHECK(!values.empty());
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace scalai::policy::validation
