#pragma once
// `scalai sim` for cluster scenarios: many jobs of a workload by the engine, or one job by a recovery design. One
// thread.

#include <string>

#include "apps/common/run_report.h"

namespace scalai::apps {

struct ClusterRunOptions : RunOptions {
  std::string snapshot, resume;  // files of ptc/run/policy/answer_log.h; at most one
  report::Manifest manifest;     // of this process, with its start
};

// Loads, runs, writes to `out` (if set) and prints; returns the process's exit code.
//
// DIR/jobs.csv (throughput.csv of a recovery run) grows as jobs end, so a killed run leaves the jobs that ended. All
// else is written at the end, summary.json last. A failed run leaves jobs.csv, and partial.json instead of
// summary.json.
int simulate_cluster(const ClusterRunOptions& options);

}  // namespace scalai::apps
