#include "apps/accuracy/policies/internal/sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ptc/base/status.h"
#include "ptc/sched/policies/catalogue.h"

namespace scalai::sched::validation {

absl::StatusOr<std::string> need(const std::string& data, const std::string& name) {
  const std::string path = data + "/" + name;
  std::error_code error;
  if (!data.empty() && std::filesystem::exists(path, error)) return path;
  return missing(data.empty() ? fmt::format("{} is needed, and there is no folder of public data", name)
                              : fmt::format("{} is not there", path));
}

absl::StatusOr<Outcome> run_policy(const PolicyRun& run) {
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> policy, make_policy(run.policy, run.set, run.seed));
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<ChangeModel> changes, make_preset_changes(run.changes, *run.fleet));
  Setup setup;
  setup.workload = run.workload;
  setup.fleet = run.fleet;
  setup.throughput = run.throughput;
  setup.policy = policy.get();
  setup.changes = changes.get();
  return sched::run(setup);
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

}  // namespace scalai::sched::validation
