// G7 and G9: the simulators of Varuna, Bamboo and Oobleck step by step, on the artifact's traces with its tables. The
// designs that users choose from follow other rules: rows of an emulation are of no policy.
#include <fmt/format.h>

#include <cmath>

#include "labs/validation/policies/emulations/oobleck_replay.h"
#include "labs/validation/policies/internal/sets.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/import.h"

namespace scalai::policy::validation {
namespace {

struct OobleckReference {
  std::string trace, model, system;
  double samples_per_s = 0, mean_hosts = 0;
  int64_t losses = 0, steps = 0, fatal = 0;
};

absl::StatusOr<std::vector<OobleckReference>> references(const std::string& data) {
  SCALAI_ASSIGN_OR_RETURN(const std::string path, need(data, "oobleck/reference_results.csv"));
  trace::Problems problems;
  SCALAI_ASSIGN_OR_RETURN(trace::Csv csv, trace::Csv::open(path, problems));
  csv.read_header({"trace", "model", "system", "avg_samples_per_s", "avg_nodes", "preemptions", "steps_complete",
                   "fatal_failures"});
  std::vector<OobleckReference> rows;
  while (problems.empty() && csv.next()) {
    const trace::Bounds any{0, 1e9};
    rows.push_back({.trace = std::string(csv.text("trace")),
                    .model = std::string(csv.text("model")),
                    .system = std::string(csv.text("system")),
                    .samples_per_s = csv.number("avg_samples_per_s", any).value_or(0),
                    .mean_hosts = csv.number("avg_nodes", any).value_or(0),
                    .losses = csv.count("preemptions", any).value_or(0),
                    .steps = csv.count("steps_complete", any).value_or(0),
                    .fatal = csv.count("fatal_failures", any).value_or(0)});
  }
  SCALAI_RETURN_IF_ERROR(csv.status());
  SCALAI_RETURN_IF_ERROR(problems.status());
  return rows;
}

absl::StatusOr<OobleckResult> replay(const std::string& data, const OobleckReference& reference,
                                     const trace::HostTrace& hosts) {
  SCALAI_ASSIGN_OR_RETURN(const std::string throughputs, need(data, "oobleck/throughput_vs_nodes.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::string costs, need(data, "oobleck/costs.csv"));
  SCALAI_ASSIGN_OR_RETURN(OobleckSetup setup, oobleck_setup(reference.system, reference.model, throughputs, costs));
  setup.availability = &hosts.availability;
  setup.hosts = static_cast<int>(hosts.hosts.size());
  return replay_oobleck(setup);
}

// `wanted`: whether a trace is of the set.
Rows rows_of(const std::string& set, const std::string& data, bool (*wanted)(const std::string& trace)) {
  SCALAI_ASSIGN_OR_RETURN(const std::vector<OobleckReference> all, references(data));
  std::vector<ReferenceRow> rows;
  int64_t compared = 0, equal = 0;
  std::map<std::string, trace::HostTrace> traces;
  for (const OobleckReference& reference : all) {
    if (!wanted(reference.trace)) continue;
    if (traces.count(reference.trace) == 0) {
      SCALAI_ASSIGN_OR_RETURN(const std::string path, need(data, "oobleck/traces/" + reference.trace));
      SCALAI_ASSIGN_OR_RETURN(const trace::Imported imported, trace::import_trace("oobleck", path));
      traces[reference.trace] = imported.hosts;
    }
    SCALAI_ASSIGN_OR_RETURN(const OobleckResult ours, replay(data, reference, traces[reference.trace]));
    rows.push_back({.set = set,
                    .policy = "",
                    .name = fmt::format("{}, {}, {}: throughput", reference.trace, reference.model, reference.system),
                    .unit = "samples/s",
                    .reference = reference.samples_per_s,
                    .ours = std::round(ours.samples_per_s * 1000) / 1000,  // as many digits as the reference has
                    .tolerance = 0.005,
                    .note = fmt::format("steps {} ({}), mean hosts {:.2f} ({})", ours.steps, reference.steps,
                                        ours.mean_hosts, reference.mean_hosts)});
    ++compared;
    equal += ours.steps == reference.steps && ours.losses == reference.losses && ours.fatal == reference.fatal;
  }
  rows.push_back({.set = set,
                  .policy = "",
                  .name = "rows above whose steps, losses and fatal losses are all equal",
                  .unit = "rows",
                  .reference = static_cast<double>(compared),
                  .ours = static_cast<double>(equal),
                  .tolerance = 0,
                  .note = ""});
  return rows;
}

}  // namespace

Rows recovery_on_spot(const std::string& data) {
  return rows_of("G7", data, [](const std::string& trace) { return trace.starts_with("scale_"); });
}

Rows recovery_by_rate(const std::string& data) {
  return rows_of("G9", data, [](const std::string& trace) { return !trace.starts_with("scale_"); });
}

}  // namespace scalai::policy::validation
