#pragma once
// What a run of many jobs is reported as: the numbers people ask for, a table, summary.json and CSV files. README.md lists every
// column. Pure functions of their arguments: same run, same bytes.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"
#include "ptc/sched/outcome.h"
#include "ptc/sched/recovery/recovery.h"

namespace scalai::sched {

// One number of a report. Names are stable: expectations, sweeps and comparisons use them ("/metrics/avg_jct_s").
struct Metric {
  std::string name;             // "avg_jct_s"
  std::string label;            // "JCT, mean"
  std::string unit;             // "s", "GPU-h", "USD", "share", ""; "jobs" and "count" are whole numbers
  std::optional<double> value;  // nothing: there is nothing to measure (no job finished, no deadlines, no prices)
};

// Quantiles interpolate between the two neighbouring order statistics, (n − 1) q apart from the smallest. JCT and queueing are of
// finished jobs (of started ones the latter), finish-time fairness is JCT over JobRecord::isolated_s, the makespan goes from
// the first submission to the last completion, shares are of GPU time that was up.
std::vector<Metric> metrics_of(const Workload& workload, const Outcome& outcome);
std::vector<Metric> metrics_of(const RecoveryResult& result);
// Names of all metrics, of both kinds, in order.
std::vector<std::string> metric_names();

// The quantile as above; nothing of nothing. `values` need not be sorted.
std::optional<double> quantile(std::vector<double> values, double q);

// Who asked what, with what.
struct ReportHead {
  std::string scenario, digest;
  uint64_t seed = 0;
  std::string workload;  // or the host trace, of a recovery run
  std::string policy;    // or the recovery design
  std::vector<std::string> policy_set;
  std::string throughputs;         // Throughput::description()
  std::string changes;             // ChangeModel::description()
  std::vector<std::string> notes;  // rows dropped by importers, …
};

// summary.json: deterministic, two-space indent. `outcome` may be of a run that was cut short: then `error` says why, and
// what nobody knows (sums over the run, when it ended, costs) is left out: only counts, JCT and fairness of jobs that ended.
std::string summary_json(const ReportHead& head, const Workload& workload, const Fleet& fleet, const Outcome& outcome,
                         const std::string& error = "");
std::string summary_json(const ReportHead& head, const RecoverySetup& setup, const RecoveryResult& result);

// The table a person reads. `format`: "table" or "csv" (metric, value, unit).
std::string metrics_table(const ReportHead& head, const std::vector<Metric>& metrics, const std::string& format);

// jobs.csv, line by line as jobs end.
std::string jobs_csv_header();
std::string jobs_csv_line(const Job& job, const JobRecord& record);

// utilization.csv: the outcome's samples. jct_cdf.csv, ftf_cdf.csv: the distribution's steps, thinned to 1,000.
std::string utilization_csv(const Outcome& outcome);
std::string jct_cdf_csv(const Workload& workload, const Outcome& outcome);
std::string ftf_cdf_csv(const Workload& workload, const Outcome& outcome);

// What each type's GPUs that were up have cost: hours and US dollars, prices as they changed.
struct TypeCost {
  GpuType type;
  double up_gpu_h = 0;
  double usd = 0;
};
std::vector<TypeCost> type_costs(const Fleet& fleet, const Availability& availability, double end_s);
// costs.csv: a row a type, then a row a job that held priced GPUs.
std::string costs_csv(const Workload& workload, const Fleet& fleet, const Availability& availability,
                      const Outcome& outcome);

// throughput.csv of a recovery run: its phases.
std::string phases_csv(const RecoveryResult& result);

}  // namespace scalai::sched
