#pragma once
// What a page shows of trace.pftrace: what each job did when, which devices it held, state on devices, use of links.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::report {

struct TraceStretch {
  double low_s = 0, high_s = 0;
  std::string what;  // "train", "waiting", a phase; on devices "JOB: train"
};
using TraceValues = std::vector<std::pair<double, double>>;  // from that second on this value

struct RunTrace {
  std::vector<std::pair<std::string, std::vector<TraceStretch>>> jobs;  // in order of the tracks
  std::map<std::string, std::vector<TraceStretch>> devices;
  std::map<std::string, TraceValues> state_bytes;  // by device
  std::map<std::string, TraceValues> link_use;     // by link, a share of its bandwidth
};

// InvalidArgument: not a trace of ours.
absl::StatusOr<RunTrace> read_trace(const std::string& bytes);

}  // namespace scalai::report
