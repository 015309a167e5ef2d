#pragma once
// The report of a run of many jobs: metrics, a table, summary.json and CSV files. docs/reports.md lists every column.
// Pure functions of their arguments: the same run gives the same bytes. Any thread may call them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptc/base/screen.h"
#include "ptc/report/entities.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/outcome.h"

namespace scalai::report {

// One number of a report. Names are stable: expectations, sweeps and comparisons use them ("/metrics/avg_jct_s").
struct Metric {
  std::string name;             // "avg_jct_s"
  std::string label;            // "JCT, mean"
  std::string unit;             // "s", "GPU-h", "USD", "share", ""; "jobs" and "count" are whole numbers
  std::optional<double> value;  // absent: nothing to measure (no job finished, no deadlines, no prices)
  bool of_user = false;         // tables show it even if it is absent
};

// The metrics of a run, of the jobs and the time of Outcome::window if it has one. Quantiles interpolate (`quantile` of
// ptc/base/statistics.h). JCT is of finished jobs, queueing of started jobs. Finish-time fairness is JCT /
// JobRecord::isolated_s. The makespan goes from the first submission to the last completion. Shares are of the GPU time
// up.
std::vector<Metric> metrics_of(const policy::Workload& workload, const policy::Outcome& outcome);
std::vector<Metric> metrics_of(const policy::RecoveryResult& result);
// The value in words ("–": absent), without the units GPU-h, USD and samples/s.
std::string shown(const Metric& metric);
// Names of all metrics of both kinds of run, in order.
std::vector<std::string> metric_names();

// A window in words, and a warning if the workload had ended before it did; empty without a window.
std::vector<std::string> window_notes(const policy::Workload& workload, const policy::Outcome& outcome);

// The inputs of a run, in words.
struct ReportHead {
  std::string scenario, digest;
  uint64_t seed = 0;
  std::string workload;  // or the host trace, of a recovery run
  std::string policy;    // or the recovery design
  std::vector<std::string> policy_set;
  std::string throughputs;            // Throughput::description()
  std::string changes;                // ChangeModel::description()
  std::vector<std::string> notes;     // e.g. rows that importers dropped
  std::string estimates = {};         // what the policy believes of run times; "" = the truth
  std::string virtual_clusters = {};  // how they share GPUs; "" = there are none
  std::string rules = {};             // of a recovery run; runs of different rules do not compare
};

// summary.json: deterministic, two-space indent. For a run that ended in an error, `error` has the reason; then only
// counts, JCT and fairness of ended jobs are written, without sums over the run, its end and costs.
// Parts of a summary that only some runs have.
struct SummaryExtras {
  std::vector<EntityRow> virtual_clusters;  // with quotas
  std::vector<Metric> metrics;              // of the user
};
std::string summary_json(const ReportHead& head, const policy::Workload& workload, const policy::Fleet& fleet,
                         const policy::Outcome& outcome, const std::string& error = "",
                         const SummaryExtras& extras = {});
std::string summary_json(const ReportHead& head, int hosts, int gpus_per_host, const policy::RecoveryResult& result);

// The table for people. `format`: "table" or "csv" (metric, value, unit).
std::string metrics_table(const ReportHead& head, const std::vector<Metric>& metrics, const std::string& format,
                          const Screen& screen = {});

// GPUs that a fleet counts in slices, as a number of GPUs: "2", "0.42857142857142855".
std::string whole_gpus(int count, int per_gpu);

// jobs.csv: its columns, and the cells of one ended job. `more`: columns that only some runs have, and their cells.
std::vector<std::string> job_columns(const std::vector<std::string>& more = {});
std::vector<std::string> job_cells(const policy::Job& job, const policy::JobRecord& record,
                                   const std::vector<std::string>& more = {});
// The header, and the line of one ended job.
std::string jobs_csv_header(const std::vector<std::string>& more = {});
std::string jobs_csv_line(const policy::Job& job, const policy::JobRecord& record,
                          const std::vector<std::string>& more = {});

// utilization.csv: the samples of the outcome. jct_cdf.csv, ftf_cdf.csv: the steps of the distribution, at most 1,000;
// of the jobs of the window.
std::string utilization_csv(const policy::Outcome& outcome);
std::string jct_cdf_csv(const policy::Workload& workload, const policy::Outcome& outcome);
std::string ftf_cdf_csv(const policy::Workload& workload, const policy::Outcome& outcome);

// Hours and US dollars of the GPUs of a type while they were up, with prices as they changed.
struct TypeCost {
  policy::GpuType type;
  double up_gpu_h = 0;
  double usd = 0;
};
std::vector<TypeCost> type_costs(const policy::Fleet& fleet, const policy::Availability& availability, double end_s);
// costs.csv: one row for each type, then one for each job that held priced GPUs.
std::string costs_csv(const policy::Workload& workload, const policy::Fleet& fleet,
                      const policy::Availability& availability, const policy::Outcome& outcome);

// throughput.csv: the phases of a recovery run.
std::string phases_csv(const policy::RecoveryResult& result);

}  // namespace scalai::report
