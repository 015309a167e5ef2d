// G1 and G2: Gavel's two traces of its physical cluster, 8 V100, 16 P100 and 24 K80, rounds of 360 s, no cost of a
// change.
#include <fmt/format.h>

#include <memory>

#include "labs/validation/policies/emulations/gavel_rules.h"
#include "labs/validation/policies/internal/sets.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/import.h"
#include "ptc/run/scenario/trace/tables.h"

namespace scalai::policy::validation {
namespace {

struct GavelRun {
  double mean_jct_h = 0, makespan_h = 0;
};

class GavelCluster {
 public:
  static absl::StatusOr<GavelCluster> load(const std::string& data, const std::string& trace) {
    GavelCluster cluster;
    SCALAI_ASSIGN_OR_RETURN(const std::string path, need(data, "gavel/traces/" + trace));
    SCALAI_ASSIGN_OR_RETURN(const std::string rates, need(data, "gavel/simulation_throughputs.json"));
    SCALAI_ASSIGN_OR_RETURN(trace::Imported imported, trace::import_trace("gavel", path));
    cluster.workload_ = std::move(imported.workload);
    cluster.fleet_ = fleet_of({{"v100", 8}, {"p100", 16}, {"k80", 24}}, 1);
    SCALAI_ASSIGN_OR_RETURN(cluster.throughput_, table_throughput("gavel", rates, cluster.fleet_, cluster.workload_,
                                                                  trace::Beyond::kRefuse));
    return cluster;
  }

  // `emulated`: as its simulator has it, in place of the catalogue's.
  absl::StatusOr<GavelRun> run(const std::string& policy, bool emulated = false) const {
    PolicyRun run;
    run.policy = policy;
    run.changes = "gavel-sim";
    run.workload = &workload_;
    run.fleet = &fleet_;
    run.throughput = throughput_.get();
    const std::unique_ptr<Policy> emulation = emulated ? make_gavel_emulation(policy, run.seed) : nullptr;
    SCALAI_ASSIGN_OR_RETURN(const Outcome outcome, emulation ? run_policy(run, *emulation) : run_policy(run));
    const std::vector<double> times = completion_times_s(workload_, outcome);
    if (times.size() != workload_.jobs.size()) {
      return failed(fmt::format("{} of {} jobs finished under {}", times.size(), workload_.jobs.size(), policy));
    }
    return GavelRun{mean(times) / 3600, outcome.end_s / 3600};
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
  struct Case {
    const char *policy, *name, *note;
    double jct_h, makespan_h;
  };
  // The second block: the simulator as it is released, which solves by ECOS (results/policies/gavel_simulate.py, seed
  // 0).
  static constexpr char kHighs[] = "reference: its simulator changed to solve with HiGHS";
  static constexpr Case kCases[] = {{"gavel-max-min-agnostic", "agnostic LAS", kHighs, 5.775, 21.058},
                                    {"gavel-max-min", "Gavel LAS", kHighs, 3.954, 17.868},
                                    {"gavel-max-min-agnostic", "agnostic LAS, as released", "", 5.550, 21.430},
                                    {"gavel-max-min", "Gavel LAS, as released", "", 4.060, 17.760},
                                    {"gavel-finish-time", "finish-time fairness", "", 4.169, 18.048},
                                    {"gavel-finish-time-agnostic", "agnostic finish-time fairness", "", 5.444, 20.982},
                                    {"gavel-water-filling", "water filling", "", 4.054, 17.762},
                                    {"gavel-water-filling-agnostic", "agnostic water filling", "", 5.557, 21.320},
                                    {"gavel-throughput", "sum of throughputs", "", 4.742, 17.760},
                                    {"gavel-isolated", "isolated", "", 5.518, 21.712}};
  std::vector<ReferenceRow> rows;
  for (const Case& c : kCases) {
    SCALAI_ASSIGN_OR_RETURN(const GavelRun run, cluster.run(c.policy));
    rows.push_back(
        row("G1", c.policy, fmt::format("96 jobs, {}: average JCT", c.name), c.jct_h, run.mean_jct_h, c.note));
    rows.push_back(
        row("G1", c.policy, fmt::format("96 jobs, {}: makespan", c.name), c.makespan_h, run.makespan_h, c.note));
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
                        Case{"gandiva", "Gandiva", 21.110}}) {
    SCALAI_ASSIGN_OR_RETURN(const GavelRun run, cluster.run(c.policy));
    rows.push_back(
        row("G2", c.policy, fmt::format("100 jobs, {}: makespan", c.name), c.makespan_h, run.makespan_h, ""));
    if (std::string_view(c.policy) == "gavel-makespan") {
      rows.back().note = "reference: its simulator changed to solve with HiGHS";
      rows.push_back(
          row("G2", c.policy, "100 jobs, Gavel: makespan, simulator as released", 17.98, run.makespan_h, ""));
    }
    if (std::string_view(c.policy) != "gavel-makespan-agnostic") continue;
    // Its program has many optima; which of them is taken depends on the solver.
    rows.back().note = "reference: its simulator changed to solve with HiGHS";
    rows.back().not_reproduced =
        "a vertex of a program with many optima, at which a job may have the slowest type alone; the simulator as "
        "released, whose solver ends amid the optima, is reproduced";
    rows.push_back(
        row("G2", c.policy, "100 jobs, agnostic: makespan, simulator as released", 21.29, run.makespan_h, ""));
  }
  for (const Case& c : {Case{"gandiva", "Gandiva", 21.110}, Case{"gavel-fifo", "FIFO", 76.174}}) {
    SCALAI_ASSIGN_OR_RETURN(const GavelRun run, cluster.run(c.policy, true));
    rows.push_back(row("G2", "", fmt::format("100 jobs, {} with the simulator's quirks: makespan", c.name),
                       c.makespan_h, run.makespan_h, ""));
  }
  return rows;
}

}  // namespace scalai::policy::validation
