#pragma once
// A run of many jobs, or of a recovery design, as its folder holds it.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/report/chart/panels.h"
#include "ptc/report/entities.h"
#include "ptc/report/jobs_report.h"
#include "ptc/report/page/internal/document.h"
#include "ptc/report/page/internal/run_data.h"

namespace scalai::report {

struct JobsData {
  std::string label;
  bool recovery = false;
  std::string scenario, digest, seed, version, workload, policy, throughputs, changes;
  int64_t hosts = 0, gpus = 0;
  double from_s = 0, end_s = 0;
  std::vector<Metric> metrics;              // of all runs, in one order; then those of the user
  std::vector<EntityRow> virtual_clusters;  // of runs with quotas
  std::vector<std::string> notes;
  RunOrigin origin;
  std::optional<CsvRows> jobs, utilization, jct, costs, placements;  // of many jobs
  std::optional<CsvRows> throughput;                                 // of a recovery design
  std::vector<std::string> left_out;
};

// `json`: summary.json. Errors: not of this form, another schema version, broken CSV files.
absl::StatusOr<JobsData> load_jobs(const std::string& label, const std::string& folder, const std::string& json);

// The value of a metric; nothing: null, or none of that name.
std::optional<double> metric_value(const JobsData& run, const std::string& name);

// A curve of a column over time, from `from` to `end_s`.
std::vector<chart::Point> column_over_time(const CsvRows& rows, const char* time, const char* column, double end_s);

// Parts of the page; `runs` are of one scenario and kind.
void add_many_jobs(Document& page, const std::vector<JobsData>& runs);
void add_jobs_over_time(Document& page, const std::vector<JobsData>& runs);
void add_recovery(Document& page, const std::vector<JobsData>& runs);
// A table of `scalai sweep`: a picture a metric.
absl::Status add_sweep(Document& page, const std::string& label, const std::string& path);
// What `scalai accuracy --format=json` printed.
absl::Status add_accuracy(Document& page, const std::string& label, const std::string& path);

}  // namespace scalai::report
