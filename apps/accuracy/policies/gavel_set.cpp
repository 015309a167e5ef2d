// G1 and G2: Gavel's two traces of its physical cluster, 8 V100, 16 P100 and 24 K80, rounds of 360 s, no cost of a
// change.
#include <fmt/format.h>

#include <memory>

#include "apps/accuracy/policies/internal/sets.h"
#include "ptc/base/status.h"
#include "ptc/scenario/trace/import.h"
#include "ptc/scenario/trace/tables.h"

namespace scalai::sched::validation {
namespace {

struct GavelRun {
  double mean_jct_h = 0, makespan_h = 0;
  std::string remarks;
};

class GavelCluster {
 public:
  static absl::StatusOr<GavelCluster> load(const std::string& data, const std::string& trace) {
    GavelCluster cluster;
    SCALAI_ASSIGN_OR_RETURN(const std::string path, need(data, "gavel/traces/" + trace));
    SCALAI_ASSIGN_OR_RETURN(const std::string rates, need(data, "gavel/simulation_throughputs.json"));
    SCALAI_ASSIGN_OR_RETURN(Imported imported, import_trace("gavel", path));
    cluster.workload_ = std::move(imported.workload);
    cluster.fleet_ = fleet_of({{"v100", 8}, {"p100", 16}, {"k80", 24}}, 1);
    SCALAI_ASSIGN_OR_RETURN(cluster.throughput_,
                            table_throughput("gavel", rates, cluster.fleet_, cluster.workload_, Beyond::kRefuse));
    return cluster;
  }

  absl::StatusOr<GavelRun> run(const std::string& policy) const {
    PolicyRun run;
    run.policy = policy;
    run.changes = "gavel-sim";
    run.workload = &workload_;
    run.fleet = &fleet_;
    run.throughput = throughput_.get();
    SCALAI_ASSIGN_OR_RETURN(const Outcome outcome, run_policy(run));
    const std::vector<double> times = completion_times_s(workload_, outcome);
    if (times.size() != workload_.jobs.size()) {
      return failed(fmt::format("{} of {} jobs finished under {}", times.size(), workload_.jobs.size(), policy));
    }
    return GavelRun{mean(times) / 3600, outcome.end_s / 3600, outcome.policy_remarks};
  }

 private:
  Workload workload_;
  Fleet fleet_;
  std::unique_ptr<Throughput> throughput_;
};

ReferenceRow row(const char* set, const char* policy, std::string name, double reference, double ours,
                 std::string note) {
  return {.set = set,
          .policy = policy,
          .name = std::move(name),
          .unit = "h",
          .reference = reference,
          .ours = ours,
          .tolerance = 0.04,
          .note = std::move(note)};
}

}  // namespace

Rows gavel_fairness(const std::string& data) {
  SCALAI_ASSIGN_OR_RETURN(const GavelCluster cluster, GavelCluster::load(data, "physical_max_min_fairness.trace"));
  std::vector<ReferenceRow> rows;
  struct Case {
    const char *policy, *name;
    double jct_h, makespan_h;
  };
  for (const Case& c : {Case{"gavel-max-min-agnostic", "agnostic LAS", 5.775, 21.058},
                        Case{"gavel-max-min", "Gavel LAS", 3.954, 17.868}}) {
    SCALAI_ASSIGN_OR_RETURN(const GavelRun run, cluster.run(c.policy));
    rows.push_back(
        row("G1", c.policy, fmt::format("96 jobs, {}: average JCT", c.name), c.jct_h, run.mean_jct_h, run.remarks));
    rows.push_back(row("G1", c.policy, fmt::format("96 jobs, {}: makespan", c.name), c.makespan_h, run.makespan_h, ""));
  }
  return rows;
}

Rows gavel_makespan(const std::string& data) {
  SCALAI_ASSIGN_OR_RETURN(const GavelCluster cluster, GavelCluster::load(data, "physical_minimize_makespan.trace"));
  std::vector<ReferenceRow> rows;
  struct Case {
    const char *policy, *name;
    double makespan_h;
  };
  for (const Case& c : {Case{"gavel-makespan", "Gavel", 17.861}, Case{"gavel-makespan-agnostic", "agnostic", 23.526},
                        Case{"gandiva", "Gandiva", 21.110}, Case{"gavel-fifo", "FIFO", 76.174}}) {
    SCALAI_ASSIGN_OR_RETURN(const GavelRun run, cluster.run(c.policy));
    rows.push_back(
        row("G2", c.policy, fmt::format("100 jobs, {}: makespan", c.name), c.makespan_h, run.makespan_h, run.remarks));
    if (std::string_view(c.policy) != "gavel-makespan-agnostic") continue;
    // Its program has many optima; which of them is taken depends on the solver.
    rows.back().note = "reference: its simulator changed to solve with HiGHS";
    rows.push_back(
        row("G2", c.policy, "100 jobs, agnostic: makespan, simulator as released", 21.29, run.makespan_h, ""));
    rows.back().not_reproduced =
        "its solver (ECOS) ends inside the many optima of this program, which spreads every job over all types; a "
        "simplex ends at a vertex";
  }
  return rows;
}

}  // namespace scalai::sched::validation
