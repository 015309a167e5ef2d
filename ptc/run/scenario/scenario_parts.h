#pragma once
// The parts of a scenario, each checked and built by one function. They report problems to `Source` and build the rest,
// so that later parts find their own problems. Internal to ptc/run/scenario; one thread.

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ptc/proto/source.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::proto {
class Cluster;
class Scenario;
}  // namespace scalai::proto

namespace scalai::scenario::internal {

using proto::field_of;
using proto::Note;
using proto::Source;

// Common input of all parts. References must outlive it.
struct Context {
  const proto::Scenario& message;
  Source& source;
  const FileReader& read;
  std::string file_name;                       // base_of() of the scenario
  std::optional<cluster::Cluster> cluster;     // empty = broken; its problems are reported
  std::string cluster_path;                    // field that describes the cluster, for notes
  std::vector<char> configs_ok;                // by job: all its configurations are valid
  std::string other_files;                     // rendered problems of files that the scenario names
  int files_missing = 0;                       // problems that only say so of a trace or a table
  std::string comments;                        // first lines of the resolved text: digests of files outside of it
  model::Fraction scale;                       // of every job's model
  int64_t whole_bytes = 0;                     // state of all scaled jobs, one replica each, before scaling
  int64_t scaled_bytes = 0;                    // the same after scaling
  std::set<DeviceId> given;                    // devices of the earlier jobs at the start
  bool fleet_ok = false, workload_ok = false;  // of many jobs: the part is built
  std::vector<std::string> notes;              // ManyJobs::notes
  std::vector<std::pair<std::string, std::string>> files;  // ManyJobs::files
};

// The cluster at `prefix` ("" or "cluster.") of a file; empty if it has a problem.
std::optional<cluster::Cluster> build_cluster(const proto::Cluster& message, const std::string& prefix, Source& source);

void build_jobs(Context& context, Scenario& scenario);
void build_events(Context& context, Scenario& scenario);
// Repairs of what some event takes away; of a repaired host, rack or switch only that is kept.
void check_repairs(Context& context, Scenario& scenario);
// Strategy, costs, planner and expectations.
void build_options(Context& context, Scenario& scenario);

void write_cluster(const cluster::Cluster& cluster, proto::Cluster& out);
// The scenario as text with all defaults and the cluster written out. `message` gives names that `scenario` lacks.
std::string resolved_text_of(const Scenario& scenario, const proto::Scenario& message);

// A duration in base units; parsing it gives the same number bit for bit.
std::string seconds_text(double seconds);

// The file name from which the names in a scenario count (see beside): its own, as if it lay in the folder that it
// names.
std::string base_of(const std::string& file_name, const proto::Scenario& message);
// The folder of a base_of().
std::string folder_of(const std::string& base);

// The path of `name` in the folder of `file_name`.
std::string beside(const std::string& file_name, const std::string& name);

// The content of a file that the scenario names: of the file beside it, or `text` if a resolved scenario has that.
absl::StatusOr<std::string> content_of(const Context& context, const std::string& name, const std::string& text);

// The problems that `text` lists in lines, all at `path`: "  hint: …" goes to the line before, "3 problems" to nobody.
void report_lines(Source& source, const std::string& path, const std::string& text, const std::string& hint = "",
                  const std::vector<Note>& notes = {});

template <class List>
std::vector<std::string> texts_of(const List& list) {
  return {list.begin(), list.end()};
}

// The file or folder of a table that `text` at `path` names, as seen from here; reported and "" when it is not there.
// What it holds is noted, so that the scenario's digest changes with it.
std::string table_path(Context& context, const std::string& path, const std::string& text);

// Where jobs ask for parts of GPUs: from here on all GPUs count in slices, and it is true. The last part.
bool build_slices(Context& context, Scenario& scenario);

// The note "the cluster has 16 GPUs …" at the description of the cluster.
Note cluster_note(const Context& context);

}  // namespace scalai::scenario::internal
