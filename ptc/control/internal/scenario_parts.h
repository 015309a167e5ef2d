#pragma once
// The parts of a scenario, each checked and built by one function. They report what they find to `Source` and build
// what they can, so that the parts after them find problems of their own.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptc/control/scenario.h"
#include "ptc/proto/source.h"

namespace scalai::proto {
class Cluster;
class Scenario;
}  // namespace scalai::proto

namespace scalai::control::internal {

using proto::field_of;
using proto::Note;
using proto::Source;

// What all parts see.
struct Context {
  const proto::Scenario& message;
  Source& source;
  const FileReader& read;
  std::string file_name;                 // the scenario's, for relative names
  std::optional<plan::Cluster> cluster;  // empty = broken, its problems are reported
  std::string cluster_path;              // field that says what the cluster is, for notes
  std::vector<char> configs_ok;          // by job: all its configs are good
  std::string other_files;               // rendered problems of files the scenario names
  std::string comments;                  // lines the resolved text starts with: digests of files it does not contain
  model::Fraction scale;                 // of every job's model
  int64_t whole_bytes = 0;               // state of all scaled jobs, one replica each: before scaling
  int64_t scaled_bytes = 0;              // and after
  std::set<DeviceId> given;              // what the jobs so far begin with
};

// The cluster at `prefix` ("" or "cluster.") of a file; empty when it has a problem.
std::optional<plan::Cluster> build_cluster(const proto::Cluster& message, const std::string& prefix, Source& source);

void build_jobs(Context& context, Scenario& scenario);
void build_events(Context& context, Scenario& scenario);
// Strategy, costs, planner and expectations.
void build_options(Context& context, Scenario& scenario);

// The scenario as text with every default and the cluster written out. `message` gives the names that `scenario` lacks.
std::string resolved_text_of(const Scenario& scenario, const proto::Scenario& message);
// A resolved text with another name in its "strategy" line. Nothing else changes: expectations in it name theirs.
std::string with_strategy(const std::string& resolved_text, const std::string& strategy);

// In base units, so that reading it back gives the same number bit for bit.
std::string seconds_text(double seconds);

// `name` as seen from the folder of `file_name`.
std::string beside(const std::string& file_name, const std::string& name);

// One error for each line of `text`, all at `path`.
void report_lines(Source& source, const std::string& path, const std::string& text, const std::string& hint,
                  const std::vector<Note>& notes);

// "the cluster has 16 GPUs", where the cluster is described.
Note cluster_note(const Context& context);

}  // namespace scalai::control::internal
