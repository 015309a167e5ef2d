// G11: one virtual cluster of Philly on 32 GPUs, rigid jobs, no cost of a change; jobs larger than the cluster are left
// out.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "labs/validation/policies/internal/sets.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/import.h"
#include "ptc/run/scenario/trace/tables.h"

namespace scalai::policy::validation {
namespace {

struct PhillyReference {
  std::string vc, policy;
  int gpus = 0;
  int64_t jobs = 0;
  double mean_s = 0, median_s = 0, p99_s = 0, makespan_s = 0;
  int64_t preemptions = 0;
};

absl::StatusOr<std::vector<PhillyReference>> philly_references(const std::string& path) {
  trace::Problems problems;
  SCALAI_ASSIGN_OR_RETURN(trace::Csv csv, trace::Csv::open(path, problems));
  csv.read_header(
      {"vc", "gpus", "jobs", "policy", "avg_jct_s", "median_jct_s", "p99_jct_s", "makespan_s", "preemptions"});
  std::vector<PhillyReference> rows;
  const trace::Bounds any{0, 1e9};
  while (problems.empty() && csv.next()) {
    rows.push_back({.vc = std::string(csv.text("vc")),
                    .policy = std::string(csv.text("policy")),
                    .gpus = static_cast<int>(csv.count("gpus", any).value_or(0)),
                    .jobs = csv.count("jobs", any).value_or(0),
                    .mean_s = csv.number("avg_jct_s", any).value_or(0),
                    .median_s = csv.number("median_jct_s", any).value_or(0),
                    .p99_s = csv.number("p99_jct_s", any).value_or(0),
                    .makespan_s = csv.number("makespan_s", any).value_or(0),
                    .preemptions = csv.count("preemptions", any).value_or(0)});
  }
  SCALAI_RETURN_IF_ERROR(csv.status());
  SCALAI_RETURN_IF_ERROR(problems.status());
  return rows;
}

PolicyRun run_of(const std::string& name) {
  PolicyRun run;
  if (name == "fifo_backfill")
    run.policy = "fifo-backfill";
  else if (name == "las2")
    run.policy = "tiresias", run.set = {"threshold=16"};
  else
    run.policy = name;
  return run;
}

}  // namespace

Rows philly_orders(const std::string& data) {
  SCALAI_ASSIGN_OR_RETURN(const std::string jobs, need(data, "philly/philly_jobs.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::string results, need(data, "philly/reference_simple_policies.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<PhillyReference> wanted, philly_references(results));
  std::vector<ReferenceRow> rows;
  for (const PhillyReference& reference : wanted) {
    SCALAI_ASSIGN_OR_RETURN(trace::Imported imported, trace::import_trace("philly", jobs, {"vc=" + reference.vc}));
    const Fleet fleet = fleet_of({{"gpu", reference.gpus}}, 1);
    const std::unique_ptr<Throughput> throughput = duration_throughput(trace::Beyond::kRefuse);
    PolicyRun run = run_of(reference.policy);
    run.workload = &imported.workload;
    run.fleet = &fleet;
    run.throughput = throughput.get();
    SCALAI_ASSIGN_OR_RETURN(const Outcome outcome, run_policy(run));
    const std::vector<double> times = completion_times_s(imported.workload, outcome);
    if (times.empty()) return failed("no job of the virtual cluster finished");
    int64_t preemptions = 0;
    double first_s = kNever, last_s = 0;
    for (const JobRecord& record : outcome.jobs) {
      if (record.end != JobEnd::kFinished) continue;
      preemptions += record.preemptions;
      last_s = std::max(last_s, record.finish_s);
      first_s = std::min(first_s, imported.workload.jobs[static_cast<size_t>(record.job.value)].submit_s);
    }
    const std::string policy = run.policy;
    const auto add = [&rows, &reference, &policy](const char* what, const char* unit, double published, double ours,
                                                  double tolerance) {
      rows.push_back(
          {.set = "G11",
           .policy = policy,
           .name = fmt::format("{} on {} GPUs, {}: {}", reference.vc, reference.gpus, reference.policy, what),
           .unit = unit,
           .reference = published,
           .ours = ours,
           .tolerance = tolerance,
           .note = ""});
    };
    add("jobs", "count", static_cast<double>(reference.jobs), static_cast<double>(times.size()), 0);
    add("average JCT", "s", reference.mean_s, mean(times), 0.005);
    // The reference takes values at place floor(n q).
    add("median JCT", "s", reference.median_s, *order_statistic(times, 0.5), 0.005);
    add("99th percentile JCT", "s", reference.p99_s, *order_statistic(times, 0.99), 0.005);
    add("makespan", "s", reference.makespan_s, last_s - first_s, 0.005);
    add("preemptions", "count", static_cast<double>(reference.preemptions), static_cast<double>(preemptions), 0);
  }
  return rows;
}

}  // namespace scalai::policy::validation
