#include "ptc/report/jobs_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/report/internal/summary.h"

namespace scalai::report {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr size_t kCdfSteps = 1000;

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::optional<double> largest(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return *std::max_element(values.begin(), values.end());
}

std::optional<double> share(double part, double whole) {
  if (whole <= 0) return std::nullopt;
  return part / whole;
}

std::string number(double value) { return std::isfinite(value) ? shortest(value) : ""; }

// The jobs that count: [first, second) of the outcome's.
std::pair<size_t, size_t> range_of(const policy::Outcome& outcome) {
  if (!outcome.window) return {0, outcome.jobs.size()};
  return {outcome.window->from_job, std::min(outcome.window->to_job, outcome.jobs.size())};
}

struct JobValues {
  std::vector<double> jct_s, queueing_s, fairness;  // by job id, those that have one
};

JobValues values_of(const policy::Workload& workload, const policy::Outcome& outcome) {
  JobValues values;
  const auto [first, last] = range_of(outcome);
  for (size_t j = first; j < last; ++j) {
    const policy::Job& job = workload.jobs[j];
    const policy::JobRecord& record = outcome.jobs[j];
    if (std::isfinite(record.first_start_s)) values.queueing_s.push_back(record.first_start_s - job.submit_s);
    if (record.end != policy::JobEnd::kFinished) continue;
    const double jct_s = record.finish_s - job.submit_s;
    values.jct_s.push_back(jct_s);
    if (record.isolated_s > 0) values.fairness.push_back(jct_s / record.isolated_s);
  }
  return values;
}

struct Counts {
  double jobs = 0;
  double finished = 0, refused = 0, unfinished = 0, too_large = 0;
  double with_deadline = 0, deadlines_met = 0;
  double restarts = 0, preemptions = 0, losses = 0;
  double cost = 0;
  double first_submit_s = policy::kNever, last_finish_s = 0;
};

Counts count(const policy::Workload& workload, const policy::Outcome& outcome) {
  Counts counts;
  const auto [first, last] = range_of(outcome);
  counts.jobs = static_cast<double>(last - first);
  for (size_t j = first; j < last; ++j) {
    const policy::Job& job = workload.jobs[j];
    const policy::JobRecord& record = outcome.jobs[j];
    counts.finished += record.end == policy::JobEnd::kFinished;
    counts.refused += record.end == policy::JobEnd::kRefused;
    counts.unfinished += record.end == policy::JobEnd::kUnfinished;
    counts.too_large += record.end == policy::JobEnd::kTooLarge;
    const bool done = record.end == policy::JobEnd::kFinished;
    counts.with_deadline += std::isfinite(job.deadline_s);
    // The end of exact arithmetic: a job that ends within a microsecond of its deadline has met it.
    counts.deadlines_met += std::isfinite(job.deadline_s) && done && record.finish_s <= job.deadline_s + 1e-6;
    counts.restarts += record.restarts;
    counts.preemptions += record.preemptions;
    counts.losses += record.losses;
    counts.cost += record.cost;
    counts.first_submit_s = std::min(counts.first_submit_s, job.submit_s);
    if (done) counts.last_finish_s = std::max(counts.last_finish_s, record.finish_s);
  }
  return counts;
}

const char* name_of(policy::JobEnd end) {
  switch (end) {
    case policy::JobEnd::kFinished: return "finished";
    case policy::JobEnd::kRefused: return "refused";
    case policy::JobEnd::kUnfinished: return "unfinished";
    case policy::JobEnd::kTooLarge: return "too-large";
  }
  return "";
}

std::string cdf_csv(std::vector<double> values, const char* column) {
  std::sort(values.begin(), values.end());
  std::string csv = fmt::format("{},share\n", column);
  const size_t steps = std::min(values.size(), kCdfSteps);
  for (size_t k = 1; k <= steps; ++k) {
    const size_t rank = (values.size() * k + steps - 1) / steps;  // the last step is the largest value
    csv += fmt::format("{},{}\n", shortest(values[rank - 1]),
                       shortest(static_cast<double>(rank) / static_cast<double>(values.size())));
  }
  return csv;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string text;
  for (size_t k = 0; k < cells.size(); ++k) text += (k == 0 ? "" : ",") + csv_cell(cells[k]);
  return text + "\n";
}

// Of several lines (a model each) the first.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Integrals of one type's GPUs that are up, and of their price.
class TypeMeter {
 public:
  TypeMeter(const policy::Fleet& fleet, const policy::Availability& availability)
      : fleet_(fleet), costs_(fleet.types.size()) {
    up_.assign(fleet.types.size(), 0);
    host_up_.assign(fleet.hosts.size(), 1);
    if (!availability.up.empty()) host_up_ = availability.up;
    for (size_t h = 0; h < fleet.hosts.size(); ++h) {
      if (host_up_[h] != 0) up_[type_of(h)] += fleet.hosts[h].gpus / fleet.per_gpu;
    }
    for (size_t t = 0; t < fleet.types.size(); ++t) {
      costs_[t].type = policy::GpuType(static_cast<int64_t>(t));
      price_.push_back(fleet.types[t].price_per_gpu_hour);
    }
  }

  void advance(double to_s) {
    const double hours = (to_s - now_s_) / kSecondsPerHour;
    if (hours <= 0) return;
    for (size_t t = 0; t < costs_.size(); ++t) {
      costs_[t].up_gpu_h += up_[t] * hours;
      costs_[t].usd += up_[t] * hours * price_[t];
    }
    now_s_ = to_s;
  }

  void happen(const policy::FleetEvent& event) {
    if (event.kind == policy::FleetEvent::Kind::kPrice) price_[static_cast<size_t>(event.type.value)] = event.price;
    if (event.kind == policy::FleetEvent::Kind::kPrice || event.kind == policy::FleetEvent::Kind::kNotice) return;
    const uint8_t up = event.kind == policy::FleetEvent::Kind::kUp ? 1 : 0;
    for (const HostId host : event.hosts) {
      const size_t h = static_cast<size_t>(host.value);
      if (host_up_[h] == up) continue;
      host_up_[h] = up;
      up_[type_of(h)] += (up != 0 ? fleet_.hosts[h].gpus : -fleet_.hosts[h].gpus) / fleet_.per_gpu;
    }
  }

  std::vector<TypeCost> take() { return std::move(costs_); }

 private:
  size_t type_of(size_t host) const { return static_cast<size_t>(fleet_.hosts[host].type.value); }

  const policy::Fleet& fleet_;
  std::vector<TypeCost> costs_;
  std::vector<double> price_;
  std::vector<double> up_;
  std::vector<uint8_t> host_up_;
  double now_s_ = 0;
};

}  // namespace

std::string whole_gpus(int count, int per_gpu) {
  return per_gpu == 1 ? fmt::format("{}", count) : shortest(count / static_cast<double>(per_gpu));
}

std::vector<Metric> metrics_of(const policy::Workload& workload, const policy::Outcome& outcome) {
  const JobValues values = values_of(workload, outcome);
  const Counts counts = count(workload, outcome);
  const auto hours = [](double gpu_s) { return std::optional<double>(gpu_s / kSecondsPerHour); };
  const bool priced = outcome.cost > 0 || counts.cost > 0;
  const policy::FreeGpuTime free = outcome.free.value_or(policy::FreeGpuTime{});
  const bool deadlines = counts.with_deadline > 0;
  const auto only = [](bool there, double value) { return there ? std::optional<double>(value) : std::nullopt; };
  return {
      {"jobs", "jobs", "jobs", counts.jobs},
      {"finished", "jobs finished", "jobs", counts.finished},
      {"refused", "jobs refused", "jobs", counts.refused},
      {"unfinished", "jobs unfinished", "jobs", counts.unfinished},
      {"too_large", "jobs larger than the cluster", "jobs", counts.too_large},
      {"avg_jct_s", "JCT, mean", "s", mean(values.jct_s)},
      {"median_jct_s", "JCT, median", "s", quantile(values.jct_s, 0.5)},
      {"p90_jct_s", "JCT, 90th percentile", "s", quantile(values.jct_s, 0.9)},
      {"p99_jct_s", "JCT, 99th percentile", "s", quantile(values.jct_s, 0.99)},
      {"avg_queueing_s", "queueing, mean", "s", mean(values.queueing_s)},
      {"median_queueing_s", "queueing, median", "s", quantile(values.queueing_s, 0.5)},
      {"p99_queueing_s", "queueing, 99th percentile", "s", quantile(values.queueing_s, 0.99)},
      {"makespan_s", "makespan", "s", only(counts.finished > 0, counts.last_finish_s - counts.first_submit_s)},
      {"avg_ftf", "finish-time fairness, mean", "", mean(values.fairness)},
      {"worst_ftf", "finish-time fairness, worst", "", largest(values.fairness)},
      {"utilization", "GPUs training", "share", share(outcome.training_gpu_s, outcome.up_gpu_s)},
      {"reconfiguring", "GPUs reconfiguring", "share", share(outcome.changing_gpu_s, outcome.up_gpu_s)},
      {"restarts", "restarts", "count", counts.restarts},
      {"preemptions", "preemptions by the policy", "count", counts.preemptions},
      {"losses", "jobs hit by losses of hosts", "count", counts.losses},
      {"gpu_h", "GPU time up", "GPU-h", hours(outcome.up_gpu_s)},
      {"training_gpu_h", "GPU time training", "GPU-h", hours(outcome.training_gpu_s)},
      {"reconfiguration_gpu_h", "GPU time lost to reconfiguration", "GPU-h", hours(outcome.changing_gpu_s)},
      {"rerun_gpu_h", "GPU time lost to work done again", "GPU-h", hours(outcome.lost_gpu_s)},
      {"free_gpu_h", "GPU time free", "GPU-h", only(outcome.free.has_value(), free.gpu_s / kSecondsPerHour)},
      {"scattered", "free GPUs on partly used hosts", "share", share(free.scattered_gpu_s, free.gpu_s)},
      {"fragmentation", "free GPUs of no use to a job of the workload", "share",
       free.unusable_gpu_s ? share(*free.unusable_gpu_s, free.gpu_s) : std::nullopt},
      {"with_deadline", "jobs with a deadline", "jobs", only(deadlines, counts.with_deadline)},
      {"deadlines_met", "deadlines met", "jobs", only(deadlines, counts.deadlines_met)},
      {"deadlines_share", "deadlines met, share", "share", share(counts.deadlines_met, counts.with_deadline)},
      {"cost_usd", "cost of GPUs up", "USD", only(priced, outcome.cost)},
      {"jobs_cost_usd", "cost of GPUs that jobs held", "USD", only(priced, counts.cost)},
  };
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const Metric& metric : metrics_of(policy::Workload{}, policy::Outcome{})) names.push_back(metric.name);
  for (const Metric& metric : metrics_of(policy::RecoveryResult{})) {
    if (std::find(names.begin(), names.end(), metric.name) == names.end()) names.push_back(metric.name);
  }
  return names;
}

std::string shown(const Metric& metric) {
  if (!metric.value) return "–";
  if (metric.unit == "s") return format_seconds(*metric.value);
  if (metric.unit == "share") return fmt::format("{:.1f} %", *metric.value * 100);
  if (metric.unit == "USD") return fmt::format("{:.2f}", *metric.value);
  if (std::floor(*metric.value) == *metric.value && std::fabs(*metric.value) < 1e15) {
    return fmt::format("{:.0f}", *metric.value);
  }
  return four_digits(*metric.value);
}

std::string metrics_table(const ReportHead& head, const std::vector<Metric>& metrics, const std::string& format,
                          const Screen& screen) {
  if (format == "csv") {
    Table table({"metric", "value>", "unit"});
    for (const Metric& metric : metrics) {
      table.row({metric.name, metric.value ? shortest(*metric.value) : "", metric.unit});
    }
    return table.csv();
  }
  Table table({"", ">", ""});
  for (const Metric& metric : metrics) {
    if ((!metric.value && !metric.of_user) || (metric.name == "too_large" && *metric.value == 0)) continue;
    const bool in_value =
        metric.unit == "s" || metric.unit == "share" || metric.unit == "jobs" || metric.unit == "count";
    table.row({metric.label, shown(metric), in_value ? "" : metric.unit});
  }
  return fmt::format(
      "{}: {} · policy {}{} · seed {}\n  throughputs: {}\n  changes: {}\n{}{}{}{}", head.scenario, head.workload,
      head.policy, head.policy_set.empty() ? "" : fmt::format(" ({})", fmt::join(head.policy_set, ", ")), head.seed,
      first_line(head.throughputs), first_line(head.changes),
      head.estimates.empty() ? "" : fmt::format("  estimates: {}\n", head.estimates),
      head.virtual_clusters.empty() ? "" : fmt::format("  virtual clusters: {}\n", head.virtual_clusters),
      head.rules.empty() ? "" : fmt::format("  rules: {}\n", head.rules), table.text(screen));
}

std::vector<std::string> window_notes(const policy::Workload& workload, const policy::Outcome& outcome) {
  if (!outcome.window) return {};
  const policy::Window& window = *outcome.window;
  const auto [first, last] = range_of(outcome);
  // A window of time ends, but the run goes on until its jobs have ended.
  const std::string end =
      window.run_on ? ""
      : outcome.end_s > window.to_s
          ? fmt::format("; the run ends at {}, with the last of these jobs", format_seconds(outcome.end_s))
          : "; the run ends with it";
  std::vector<std::string> notes = {
      fmt::format("metrics are of a window: jobs {} to {} by submission ({}), use of the cluster from {} to {}{}",
                  first, last - 1, counted(static_cast<int64_t>(last - first), "job"), format_seconds(window.from_s),
                  format_seconds(window.to_s), end)};
  const double last_s = workload.jobs.empty() ? 0 : workload.jobs.back().submit_s;
  if (last_s < window.to_s) {
    notes.push_back(
        fmt::format("the last job was submitted at {}: later in the window the cluster empties, and a "
                    "longer workload would keep it full",
                    format_seconds(last_s)));
  }
  return notes;
}

std::vector<std::string> job_columns(const std::vector<std::string>& more) {
  std::vector<std::string> columns = {
      "job",           "type",       "entity",         "gpus",           "submit_s",   "end",
      "first_start_s", "finish_s",   "jct_s",          "queueing_s",     "executed_s", "isolated_s",
      "ftf",           "deadline_s", "attained_gpu_s", "changing_gpu_s", "lost_gpu_s", "work",
      "work_done",     "restarts",   "preemptions",    "losses",         "cost_usd"};
  for (const char* queue : {"queue_free_gpu_s", "queue_unusable_gpu_s"}) columns.emplace_back(queue);
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

std::vector<std::string> job_cells(const policy::Job& job, const policy::JobRecord& record,
                                   const std::vector<std::string>& more) {
  const bool done = record.end == policy::JobEnd::kFinished;
  const double jct_s = done ? record.finish_s - job.submit_s : policy::kNever;
  const double ftf = done && record.isolated_s > 0 ? jct_s / record.isolated_s : policy::kNever;
  std::vector<std::string> cells = {
      job.name, job.type, job.entity, whole_gpus(job.gpus, job.per_gpu), shortest(job.submit_s), name_of(record.end)};
  for (const double value : {record.first_start_s, record.finish_s, jct_s, record.first_start_s - job.submit_s,
                             record.executed_s, record.isolated_s, ftf, job.deadline_s, record.attained_gpu_s,
                             record.changing_gpu_s, record.lost_gpu_s, job.work, record.work_done}) {
    cells.push_back(number(value));
  }
  for (const int count : {record.restarts, record.preemptions, record.losses}) cells.push_back(std::to_string(count));
  for (const double value : {record.cost, record.queue_free_gpu_s, record.queue_unusable_gpu_s})
    cells.push_back(number(value));
  cells.insert(cells.end(), more.begin(), more.end());
  return cells;
}

std::string jobs_csv_header(const std::vector<std::string>& more) { return csv_line(job_columns(more)); }

std::string jobs_csv_line(const policy::Job& job, const policy::JobRecord& record,
                          const std::vector<std::string>& more) {
  return csv_line(job_cells(job, record, more));
}

std::string utilization_csv(const policy::Outcome& outcome) {
  std::string csv =
      "at_s,up_gpus,training_gpus,changing_gpus,running_jobs,waiting_jobs,free_gpus,scattered_gpus,for_s\n";
  for (size_t k = 0; k < outcome.use.size(); ++k) {
    const policy::UseSample& use = outcome.use[k];
    const double to_s = k + 1 < outcome.use.size() ? outcome.use[k + 1].at_s : outcome.end_s;
    const auto gpus = [&](int count) { return whole_gpus(count, outcome.per_gpu); };
    const std::string free = use.free < 0 ? "," : fmt::format("{},{}", gpus(use.free), gpus(use.scattered));
    csv += fmt::format("{},{},{},{},{},{},{},{}\n", shortest(use.at_s), gpus(use.up), gpus(use.training),
                       gpus(use.changing), use.running_jobs, use.waiting_jobs, free,
                       shortest(std::max(to_s - use.at_s, 0.0)));
  }
  return csv;
}

std::string jct_cdf_csv(const policy::Workload& workload, const policy::Outcome& outcome) {
  return cdf_csv(values_of(workload, outcome).jct_s, "jct_s");
}

std::string ftf_cdf_csv(const policy::Workload& workload, const policy::Outcome& outcome) {
  return cdf_csv(values_of(workload, outcome).fairness, "ftf");
}

std::vector<TypeCost> type_costs(const policy::Fleet& fleet, const policy::Availability& availability, double end_s) {
  SCALAI_CHECK(availability.up.empty() || availability.up.size() == fleet.hosts.size());
  TypeMeter meter(fleet, availability);
  for (const policy::FleetEvent& event : availability.events) {
    if (event.at_s >= end_s) break;
    meter.advance(event.at_s);
    meter.happen(event);
  }
  meter.advance(end_s);
  return meter.take();
}

std::string costs_csv(const policy::Workload& workload, const policy::Fleet& fleet,
                      const policy::Availability& availability, const policy::Outcome& outcome) {
  std::string csv = "kind,name,gpu_h,cost_usd\n";
  for (const TypeCost& cost : type_costs(fleet, availability, outcome.end_s)) {
    csv += fmt::format("type,{},{},{}\n", csv_cell(fleet.types[static_cast<size_t>(cost.type.value)].name),
                       shortest(cost.up_gpu_h), shortest(cost.usd));
  }
  for (size_t j = 0; j < outcome.jobs.size(); ++j) {
    if (outcome.jobs[j].cost == 0) continue;
    csv += fmt::format("job,{},{},{}\n", csv_cell(workload.jobs[j].name),
                       shortest(outcome.jobs[j].attained_gpu_s / kSecondsPerHour), shortest(outcome.jobs[j].cost));
  }
  return csv;
}

}  // namespace scalai::report
