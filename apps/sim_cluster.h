#pragma once
// `scalai sim` of cluster scenarios: many jobs of a workload through the engine, or one job through a recovery design.

#include <string>
#include <vector>

#include "apps/run_report.h"

namespace scalai::apps {

struct ClusterRunOptions {
  std::string scenario, cluster, out, format;
  std::vector<std::string> settings;  // "PATH=VALUE"
  control::Manifest manifest;         // of this process, started
};

// Loads, runs, writes into `out` (if any) and prints; the process's exit code.
//
// DIR/jobs.csv (throughput.csv of a recovery run) grows as jobs end, so that a run that is killed leaves what it had. All else
// is written at the end, summary.json last. A run that failed leaves jobs.csv, and partial.json in place of summary.json.
int simulate_cluster(const ClusterRunOptions& options);

}  // namespace scalai::apps
