// summary.json, and what a recovery run is reported as.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "ptc/base/json.h"
#include "ptc/base/units.h"
#include "ptc/base/version.h"
#include "ptc/report/jobs_report.h"

namespace scalai::report {
namespace {

using Json = nlohmann::ordered_json;

Json head_json(const ReportHead& head, const char* kind) {
  Json json = {{"schema_version", 1},
               {"version", kVersion},
               {"kind", kind},
               {"scenario", head.scenario},
               {"scenario_digest", head.digest},
               {"seed", head.seed},
               {"workload", head.workload},
               {"policy", head.policy},
               {"policy_set", head.policy_set},
               {"throughputs", head.throughputs},
               {"changes", head.changes}};
  if (!head.estimates.empty()) json["estimates"] = head.estimates;
  if (!head.virtual_clusters.empty()) json["sharing"] = head.virtual_clusters;
  return json;
}

Json metrics_json(const std::vector<Metric>& metrics) {
  Json json = Json::object();
  for (const Metric& metric : metrics) {
    const bool whole = metric.unit == "jobs" || metric.unit == "count";
    json[metric.name] = !metric.value ? Json(nullptr)
                        : whole       ? Json(static_cast<int64_t>(*metric.value))
                                      : Json(*metric.value);
  }
  return json;
}

// Of a run that was cut short only jobs that ended have records: sums over the run and over all jobs are not known.
std::vector<Metric> of_ended_jobs(std::vector<Metric> metrics) {
  const auto unknown = [](const Metric& metric) {
    const std::string& name = metric.name;
    const bool count =
        name == "jobs" || name == "finished" || name == "refused" || name == "unfinished" || name == "too_large";
    return !count && !name.ends_with("_jct_s") && !name.ends_with("_ftf");
  };
  metrics.erase(std::remove_if(metrics.begin(), metrics.end(), unknown), metrics.end());
  return metrics;
}

std::string lines_of(const Json& json) { return json_text(json, {.indent = 2}) + "\n"; }

}  // namespace

std::string summary_json(const ReportHead& head, const policy::Workload& workload, const policy::Fleet& fleet,
                         const policy::Outcome& outcome, const std::string& error, const SummaryExtras& extras) {
  Json json = head_json(head, "cluster");
  Json types = Json::array();
  for (size_t t = 0; t < fleet.types.size(); ++t) {
    types.push_back({{"type", fleet.types[t].name},
                     {"gpus", fleet.gpus(policy::GpuType(static_cast<int64_t>(t))) / fleet.per_gpu},
                     {"price_per_gpu_hour", fleet.types[t].price_per_gpu_hour}});
  }
  json["fleet"] = {{"hosts", fleet.hosts.size()}, {"gpus", fleet.gpus() / fleet.per_gpu}, {"types", std::move(types)}};
  if (outcome.window) {
    const policy::Window& window = *outcome.window;
    const size_t last = std::min(window.to_job, outcome.jobs.size());
    json["window"] = {{"from_job", window.from_job},
                      {"to_job", last},
                      {"jobs", last - window.from_job},
                      {"from_s", window.from_s},
                      {"to_s", window.to_s < policy::kNever ? Json(window.to_s) : Json(nullptr)},
                      {"run_on", window.run_on}};
  }
  std::vector<Metric> metrics = metrics_of(workload, outcome);
  if (!error.empty()) {
    json["metrics"] = metrics_json(of_ended_jobs(std::move(metrics)));
    json["notes"] = head.notes;
    json["error"] = error;
    return lines_of(json);
  }
  json["end_s"] = outcome.end_s;
  metrics.insert(metrics.end(), extras.metrics.begin(), extras.metrics.end());
  json["metrics"] = metrics_json(metrics);
  for (const EntityRow& row : extras.virtual_clusters) {
    const auto or_null = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
    json["virtual_clusters"].push_back({{"name", row.entity},
                                        {"quota_gpus", row.quota_gpus.value_or(0)},
                                        {"jobs", row.jobs},
                                        {"finished", row.finished},
                                        {"refused", row.refused},
                                        {"unfinished", row.unfinished},
                                        {"avg_jct_s", or_null(row.avg_jct_s)},
                                        {"p99_jct_s", or_null(row.p99_jct_s)},
                                        {"avg_queueing_s", or_null(row.avg_queueing_s)},
                                        {"avg_ftf", or_null(row.avg_ftf)},
                                        {"preemptions", row.preemptions},
                                        {"gpu_h", row.gpu_h},
                                        {"borrowed_gpu_h", row.borrowed_gpu_h}});
  }
  json["counts"] = {{"events", outcome.events}, {"decisions", outcome.decisions}, {"changes", outcome.changes}};
  json["policy_remarks"] = outcome.policy_remarks;
  json["notes"] = head.notes;
  return lines_of(json);
}

std::string summary_json(const ReportHead& head, int hosts, int gpus_per_host, const policy::RecoveryResult& result) {
  Json json = head_json(head, "recovery");
  json["rules"] = head.rules;
  json["fleet"] = {{"hosts", hosts}, {"gpus", hosts * gpus_per_host}};
  json["from_s"] = result.from_s;
  json["end_s"] = result.to_s;
  json["metrics"] = metrics_json(metrics_of(result));
  json["notes"] = head.notes;
  return lines_of(json);
}

std::vector<Metric> metrics_of(const policy::RecoveryResult& result) {
  const double hours = (result.to_s - result.from_s) / kSecondsPerHour;
  const double gpu_h =
      result.training_gpu_h + result.lost_gpu_h + result.changing_gpu_h + result.checkpoint_gpu_h + result.idle_gpu_h;
  const auto only = [](bool there, double value) { return there ? std::optional<double>(value) : std::nullopt; };
  return {
      {"samples", "samples kept", "samples", result.samples},
      {"samples_per_s", "throughput, mean", "samples/s", result.samples_per_s},
      {"steps", "steps", "count", static_cast<double>(result.steps)},
      {"duration_s", "time", "s", hours * kSecondsPerHour},
      {"ettr", "time that trains and is kept (ETTR)", "share", result.ettr},
      {"mean_hosts", "hosts up, mean", "", result.mean_hosts},
      {"host_losses", "hosts lost", "count", static_cast<double>(result.losses)},
      {"restarts", "restarts", "count", static_cast<double>(result.restarts)},
      {"fatal", "losses of state, or all start again", "count", static_cast<double>(result.fatal)},
      {"lost_samples", "samples lost", "samples", result.lost_samples},
      {"gpu_h", "GPU time up", "GPU-h", gpu_h},
      {"training_gpu_h", "GPU time training", "GPU-h", result.training_gpu_h},
      {"reconfiguration_gpu_h", "GPU time lost to reconfiguration", "GPU-h", result.changing_gpu_h},
      {"rerun_gpu_h", "GPU time lost to work done again", "GPU-h", result.lost_gpu_h},
      {"checkpoint_gpu_h", "GPU time lost to checkpoints", "GPU-h", result.checkpoint_gpu_h},
      {"idle_gpu_h", "GPU time idle", "GPU-h", result.idle_gpu_h},
      {"cost_usd", "cost of hosts up", "USD", only(result.usd > 0, result.usd)},
      {"usd_per_msample", "cost of a million samples", "USD",
       only(result.usd > 0 && result.samples > 0, result.usd / result.samples * 1e6)},
  };
}

std::string phases_csv(const policy::RecoveryResult& result) {
  std::string csv = "from_s,live_hosts,used_hosts,samples_per_s\n";
  for (const policy::RecoveryPhase& phase : result.phases) {
    csv += fmt::format("{},{},{},{}\n", shortest(phase.from_s), phase.live, phase.used, shortest(phase.samples_per_s));
  }
  return csv;
}

}  // namespace scalai::report
