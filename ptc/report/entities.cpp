#include "ptc/report/entities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "ptc/base/statistics.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::report {
namespace {

constexpr double kHour_s = 3600;

std::string cell(const std::optional<double>& value) { return value ? shortest(*value) : ""; }
std::string time_cell(const std::optional<double>& value) { return value ? format_seconds(*value) : "–"; }

std::optional<double> average(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

Entities::Entities(const policy::Workload& workload, std::vector<Quota> quotas, std::vector<int> quota_of)
    : workload_(workload), entities_(std::move(quotas)), quotas_(!entities_.empty()), entity_of_(std::move(quota_of)) {
  if (!quotas_) {
    std::set<std::string> names;
    for (const policy::Job& job : workload.jobs) names.insert(job.entity);
    for (const std::string& name : names) entities_.push_back({name, 0});
    for (const policy::Job& job : workload.jobs) {
      entity_of_.push_back(static_cast<int>(std::distance(names.begin(), names.find(job.entity))));
    }
  }
  gpus_of_.assign(workload.jobs.size(), 0);
  use_.resize(entities_.size());
}

void Entities::advance(size_t entity, double to_s) {
  Use& use = use_[entity];
  const double dt = to_s - use.since_s;
  if (quotas_) use.borrowed_gpu_s += dt * std::max(0, use.gpus - entities_[entity].gpus);
  use.since_s = to_s;
}

void Entities::placed(double now_s, policy::JobId job, const policy::Placement& placement, policy::JobId beside) {
  const size_t k = static_cast<size_t>(job.value), entity = static_cast<size_t>(entity_of_[k]);
  advance(entity, now_s);
  const int gpus = beside.valid() ? 0 : placement.gpus();  // those of two jobs count once, for the one that had them
  use_[entity].gpus += gpus - std::exchange(gpus_of_[k], gpus);
}

std::vector<EntityRow> Entities::rows(const policy::Outcome& outcome) {
  if (!quotas_ && entities_.size() == 1 && entities_.front().name.empty()) return {};
  std::vector<EntityRow> rows(entities_.size());
  std::vector<std::vector<double>> jct(rows.size()), queueing(rows.size()), fairness(rows.size());
  for (size_t k = 0; k < outcome.jobs.size(); ++k) {
    const policy::Job& job = workload_.jobs[k];
    const policy::JobRecord& record = outcome.jobs[k];
    const size_t e = static_cast<size_t>(entity_of_[k]);
    rows[e].gpu_h += record.attained_gpu_s / kHour_s;
    if (outcome.window && !outcome.window->holds(record.job)) continue;
    EntityRow& row = rows[e];
    ++row.jobs;
    row.refused += record.end == policy::JobEnd::kRefused || record.end == policy::JobEnd::kTooLarge;
    row.unfinished += record.end == policy::JobEnd::kUnfinished;
    row.preemptions += record.preemptions;
    if (std::isfinite(record.first_start_s)) queueing[e].push_back(record.first_start_s - job.submit_s);
    if (record.end != policy::JobEnd::kFinished) continue;
    ++row.finished;
    jct[e].push_back(record.finish_s - job.submit_s);
    if (record.isolated_s > 0) fairness[e].push_back(jct[e].back() / record.isolated_s);
  }
  for (size_t e = 0; e < rows.size(); ++e) {
    advance(e, outcome.end_s);
    rows[e].entity = entities_[e].name;
    if (quotas_) rows[e].quota_gpus = entities_[e].gpus;
    rows[e].avg_jct_s = average(jct[e]);
    rows[e].p99_jct_s = quantile(jct[e], 0.99);
    rows[e].avg_queueing_s = average(queueing[e]);
    rows[e].avg_ftf = average(fairness[e]);
    rows[e].borrowed_gpu_h = use_[e].borrowed_gpu_s / kHour_s;
  }
  return rows;
}

std::string entities_csv(const std::vector<EntityRow>& rows) {
  std::string csv =
      "entity,quota_gpus,jobs,finished,refused,unfinished,avg_jct_s,p99_jct_s,avg_queueing_s,avg_ftf,preemptions,gpu_h,"
      "borrowed_gpu_h\n";
  for (const EntityRow& row : rows) {
    csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_cell(row.entity),
                       row.quota_gpus ? fmt::format("{}", *row.quota_gpus) : "", row.jobs, row.finished, row.refused,
                       row.unfinished, cell(row.avg_jct_s), cell(row.p99_jct_s), cell(row.avg_queueing_s),
                       cell(row.avg_ftf), row.preemptions, shortest(row.gpu_h), shortest(row.borrowed_gpu_h));
  }
  return csv;
}

std::string entities_table(const std::vector<EntityRow>& rows, const Screen& screen) {
  Table table({"virtual cluster", "quota>", "jobs>", "finished>", "JCT, mean>", "queueing, mean>", "preemptions>",
               "GPU-h>", "borrowed GPU-h>"});
  for (const EntityRow& row : rows) {
    table.row({row.entity, fmt::format("{}", row.quota_gpus.value_or(0)), fmt::format("{}", row.jobs),
               fmt::format("{}", row.finished), time_cell(row.avg_jct_s), time_cell(row.avg_queueing_s),
               fmt::format("{}", row.preemptions), four_digits(row.gpu_h), four_digits(row.borrowed_gpu_h)});
  }
  return table.text(screen);
}

}  // namespace scalai::report
