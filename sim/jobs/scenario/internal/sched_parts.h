#pragma once
// The parts of a cluster scenario, each checked and built by one function, in this order. They report to `source` and
// build what they can.

#include <string>
#include <vector>

#include "ptc/run/scenario/scenario_parts.h"
#include "ptc/run/scenario/trace/import.h"
#include "sim/jobs/scenario/scenario_sched.h"

namespace scalai::scenario::internal {

struct SchedContext {
  const proto::Scenario& message;
  Source& source;
  std::string file_name;  // base_of() of the scenario
  const ClusterSimulators& simulators;
  ClusterScenario& scenario;
  int files_missing = 0;     // errors that only say so
  bool cluster_ok = false;   // cluster and fleet are built
  bool workload_ok = false;  // jobs are there
};

// "name=value" texts of a `set` list, each name once. Unknown names and repeated ones are reported at their place.
class SetValues {
 public:
  // A known name that ends in "." stands for all names that begin so ("model.bert").
  SetValues(Source& source, const std::string& path, const std::vector<std::string>& set,
            const std::vector<std::string>& known);
  bool has(const std::string& name) const { return at_.count(name) != 0; }
  std::string text(const std::string& name, const std::string& otherwise = "") const;
  // The place of a value: "policy.set[2]".
  std::string path(const std::string& name) const;
  const std::map<std::string, std::pair<std::string, int>>& all() const { return at_; }

  double seconds(const std::string& name, double otherwise);
  double positive(const std::string& name, double otherwise);
  int64_t count(const std::string& name, int64_t otherwise);
  bool flag(const std::string& name, bool otherwise);

 private:
  Source& source_;
  std::string path_;
  std::map<std::string, std::pair<std::string, int>> at_;  // value, index
};

template <class List>
std::vector<std::string> texts_of(const List& list) {
  return {list.begin(), list.end()};
}

// The file or folder that `text` at `path` names, as seen from here; reported and "" when it is not there.
std::string data_path(SchedContext& context, const std::string& path, const std::string& text);

// The same of a table; what it holds is noted, so that the scenario's digest changes with it.
std::string table_path(SchedContext& context, const std::string& path, const std::string& text);

// The problems that a library lists in lines, all at `path`: "  hint: …" goes to the line before, "3 problems" to
// nobody.
void report_list(Source& source, const std::string& path, const std::string& text, const std::string& hint = "");

// What the scenario's file, format, generator and set say, for `content`; nothing when there is a problem, which is
// reported.
struct TraceChoice {
  std::string path;  // of the message: "workload"
  std::string file, format, generator;
  std::vector<std::string> set;
};
std::optional<trace::Imported> read_trace(SchedContext& context, const TraceChoice& choice,
                                          trace::TraceContent content);
// "gavel trace physical.trace" or "generator poisson".
std::string describe(const TraceChoice& choice);

// Where a setting has chosen the policy or the recovery design: takes out of its `set` the parameters that only others
// know, which the file gives to its own choice. One note for each.
std::vector<std::string> leave_out_foreign_parameters(proto::Scenario& message, Source& source);

void build_fleet(SchedContext& context);
void build_workload(SchedContext& context);
void build_window(SchedContext& context);
void build_estimates(SchedContext& context);
void build_virtual_clusters(SchedContext& context);
void build_metrics(SchedContext& context);
void build_availability(SchedContext& context);
void build_prices(SchedContext& context);
void build_throughputs(SchedContext& context);
void build_policy(SchedContext& context);
void build_changes(SchedContext& context);
// Where jobs ask for parts of GPUs: from here on all GPUs count in slices. The last part.
void build_slices(SchedContext& context);
void build_recovery(SchedContext& context);

// The costs of a strategy as ptc/run/policy takes them.
jobs::ChangeStrategy change_strategy(const std::string& name, const std::vector<CostOverride>& overrides);

}  // namespace scalai::scenario::internal
