// Reading the folder of a run of many jobs or a recovery design (internal/jobs_data.h).

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/report/page/internal/jobs_data.h"

namespace scalai::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string word_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

// Labels and units of this version. A metric that it does not know is one of the user, and has no more than its name.
std::vector<Metric> metrics_in(const Json& json, bool recovery) {
  std::vector<Metric> metrics =
      recovery ? metrics_of(policy::RecoveryResult{}) : metrics_of(policy::Workload{}, policy::Outcome{});
  for (Metric& metric : metrics) {
    const auto found = json.find(metric.name);
    metric.value =
        found != json.end() && found->is_number() ? std::optional<double>(found->get<double>()) : std::nullopt;
  }
  const size_t own = metrics.size();
  for (const auto& [name, value] : json.items()) {
    const auto known = [&name = name](const Metric& metric) { return metric.name == name; };
    if (std::any_of(metrics.begin(), metrics.begin() + static_cast<std::ptrdiff_t>(own), known)) continue;
    metrics.push_back({name, name, "", value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt});
  }
  return metrics;
}

std::vector<EntityRow> virtual_clusters_in(const Json& root) {
  std::vector<EntityRow> rows;
  const auto found = root.find("virtual_clusters");
  if (found == root.end() || !found->is_array()) return rows;
  for (const Json& one : *found) {
    if (!one.is_object()) continue;
    const auto count = [&one](const char* key) { return static_cast<int>(number_at(one, key)); };
    EntityRow& row = rows.emplace_back();
    row.entity = word_at(one, "name");
    row.quota_gpus = count("quota_gpus");
    row.jobs = count("jobs");
    row.finished = count("finished");
    row.preemptions = count("preemptions");
    if (const auto jct = one.find("avg_jct_s"); jct != one.end() && jct->is_number())
      row.avg_jct_s = jct->get<double>();
    if (const auto wait = one.find("avg_queueing_s"); wait != one.end() && wait->is_number()) {
      row.avg_queueing_s = wait->get<double>();
    }
    row.gpu_h = number_at(one, "gpu_h");
    row.borrowed_gpu_h = number_at(one, "borrowed_gpu_h");
  }
  return rows;
}

absl::Status load_table(const std::string& folder, const char* name, std::optional<CsvRows>& rows, JobsData& run) {
  const std::string path = (fs::path(folder) / name).string();
  std::error_code error;
  if (!fs::exists(path, error)) {
    run.left_out.push_back(fmt::format("{} is missing: what it holds is left out", name));
    return absl::OkStatus();
  }
  SCALAI_ASSIGN_OR_RETURN(rows, CsvRows::read(path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobsData> load_jobs(const std::string& label, const std::string& folder, const std::string& json) {
  const std::string path = (fs::path(folder) / "summary.json").string();
  SCALAI_ASSIGN_OR_RETURN(const Json root, read_json(json, path));
  if (number_at(root, "schema_version") != 1)
    return invalid(
        fmt::format("{}: schema_version is {:g}; this version reads 1", path, number_at(root, "schema_version")));
  if (!root.contains("metrics") || !root.at("metrics").is_object())
    return invalid(fmt::format("{}: /metrics is missing", path));
  JobsData run{.label = label, .recovery = word_at(root, "kind") == "recovery", .origin = read_origin(folder)};
  run.scenario = word_at(root, "scenario");
  run.digest = word_at(root, "scenario_digest");
  run.version = word_at(root, "version");
  run.workload = word_at(root, "workload");
  run.policy = word_at(root, "policy");
  run.throughputs = word_at(root, "throughputs");
  run.changes = word_at(root, "changes");
  run.seed = root.contains("seed") ? json_text(root.at("seed")) : "";
  if (const auto fleet = root.find("fleet"); fleet != root.end() && fleet->is_object()) {
    run.hosts = static_cast<int64_t>(number_at(*fleet, "hosts"));
    run.gpus = static_cast<int64_t>(number_at(*fleet, "gpus"));
  }
  run.from_s = number_at(root, "from_s");
  run.end_s = number_at(root, "end_s");
  run.metrics = metrics_in(root.at("metrics"), run.recovery);
  run.virtual_clusters = virtual_clusters_in(root);
  if (const auto notes = root.find("notes"); notes != root.end() && notes->is_array()) {
    for (const Json& note : *notes)
      if (note.is_string()) run.notes.push_back(note.get<std::string>());
  }
  if (run.recovery) {
    SCALAI_RETURN_IF_ERROR(load_table(folder, "throughput.csv", run.throughput, run));
    return run;
  }
  SCALAI_RETURN_IF_ERROR(load_table(folder, "jobs.csv", run.jobs, run));
  SCALAI_RETURN_IF_ERROR(load_table(folder, "utilization.csv", run.utilization, run));
  SCALAI_RETURN_IF_ERROR(load_table(folder, "jct_cdf.csv", run.jct, run));
  SCALAI_RETURN_IF_ERROR(load_table(folder, "costs.csv", run.costs, run));
  SCALAI_RETURN_IF_ERROR(load_table(folder, "placements.csv", run.placements, run));
  return run;
}

std::optional<double> metric_value(const JobsData& run, const std::string& name) {
  for (const Metric& metric : run.metrics)
    if (metric.name == name) return metric.value;
  return std::nullopt;
}

std::vector<chart::Point> column_over_time(const CsvRows& rows, const char* time, const char* column, double end_s) {
  std::vector<chart::Point> points;
  for (size_t row = 0; row < rows.size(); ++row)
    points.push_back(
        {rows.number_or_zero(row, time), rows.number(row, column).value_or(std::numeric_limits<double>::quiet_NaN())});
  if (!points.empty()) points.push_back({end_s, points.back().y});
  return points;
}

}  // namespace scalai::report
