// G18: the max-min program of n one-GPU jobs on n/4 GPUs of each of three types, alone and in pairs, whole and in k
// groups.
#include <fmt/format.h>

#include <memory>

#include "labs/validation/policies/internal/sets.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/allocation.h"
#include "ptc/run/policy/policies/shares/pop.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/tables.h"

namespace scalai::policy::validation {
namespace {

struct Optimum {
  int jobs = 0, groups = 0, group = 0;
  bool packed = false;
  double value = 0;
};

absl::StatusOr<std::vector<Optimum>> optima(const std::string& path) {
  trace::Problems problems;
  SCALAI_ASSIGN_OR_RETURN(trace::Csv csv, trace::Csv::open(path, problems));
  csv.read_header({"jobs", "packed", "k", "group", "optimum_min_normalised"});
  std::vector<Optimum> rows;
  const trace::Bounds small{0, 1e5};
  while (problems.empty() && csv.next()) {
    rows.push_back({.jobs = static_cast<int>(csv.count("jobs", small).value_or(0)),
                    .groups = static_cast<int>(csv.count("k", small).value_or(0)),
                    .group = static_cast<int>(csv.count("group", small).value_or(0)),
                    .packed = csv.count("packed", small).value_or(0) != 0,
                    .value = csv.number("optimum_min_normalised", small).value_or(0)});
  }
  SCALAI_RETURN_IF_ERROR(csv.status());
  SCALAI_RETURN_IF_ERROR(problems.status());
  return rows;
}

absl::StatusOr<std::vector<Job>> jobs_of(const std::string& path) {
  trace::Problems problems;
  SCALAI_ASSIGN_OR_RETURN(trace::Csv csv, trace::Csv::open(path, problems));
  csv.read_header({"job", "job_type"});
  std::vector<Job> jobs;
  while (problems.empty() && csv.next()) {
    Job job;
    job.name = std::string(csv.text("job"));
    job.type = std::string(csv.text("job_type"));
    jobs.push_back(job);
  }
  SCALAI_RETURN_IF_ERROR(csv.status());
  SCALAI_RETURN_IF_ERROR(problems.status());
  return jobs;
}

// Optima by group. The reference normalises by N_j / jobs, ours by N_j / (sum of N).
absl::StatusOr<std::vector<double>> solve(const std::string& rates, std::vector<Job> jobs, const Optimum& wanted) {
  const int each = wanted.jobs / 4;
  jobs.resize(static_cast<size_t>(wanted.jobs));
  const Fleet fleet = fleet_of({{"v100", each}, {"p100", each}, {"k80", each}}, 1);
  Workload workload;
  workload.jobs = jobs;
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Throughput> throughput,
                          table_throughput("gavel", rates, fleet, workload, trace::Beyond::kRefuse));
  const ShareProblem problem = share_problem(jobs, fleet, *throughput, wanted.packed);
  PopOptions options;
  options.groups = wanted.groups;
  SCALAI_ASSIGN_OR_RETURN(const PopShares shares, pop_shares(problem, options, max_min_shares));
  std::vector<double> values;
  const double jobs_in_group = static_cast<double>(wanted.jobs) / wanted.groups;
  const int gpus_in_group = 3 * (each / wanted.groups);
  for (const double objective : shares.objectives) values.push_back(objective * jobs_in_group / gpus_in_group);
  return values;
}

}  // namespace

Rows pop_optima(const std::string& data) {
  SCALAI_ASSIGN_OR_RETURN(const std::string list, need(data, "pop/lp_2048_jobs_throughputs.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::string published, need(data, "pop/lp_reference_optima.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::string rates, need(data, "gavel/simulation_throughputs.json"));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<Job> jobs, jobs_of(list));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<Optimum> wanted, optima(published));
  std::vector<ReferenceRow> rows;
  std::vector<double> values;
  for (const Optimum& one : wanted) {
    if (one.group == 0) {  // all groups of a split come at once
      SCALAI_ASSIGN_OR_RETURN(values, solve(rates, jobs, one));
    }
    if (static_cast<size_t>(one.group) >= values.size()) return invalid(published + ": a group without its first one");
    rows.push_back({.set = "G18",
                    .policy = "gavel-max-min",
                    .name = fmt::format("{} jobs, {}, k = {}, group {}", one.jobs, one.packed ? "pairs" : "alone",
                                        one.groups, one.group),
                    .unit = "least normalised throughput",
                    .reference = one.value,
                    .ours = values[static_cast<size_t>(one.group)],
                    .tolerance = 1e-6,
                    .note = ""});
  }
  return rows;
}

}  // namespace scalai::policy::validation
