#pragma once
// From what a reader found to what a run uses: time 0, the window the user asked for, order, hosts' changes as events,
// and the summary.

#include "absl/status/statusor.h"
#include "ptc/run/scenario/trace/internal/reading.h"

namespace scalai::trace {

// What the options of with_job_options and with_host_options say.
struct Window {
  double from_s = 0;
  double until_s = policy::kNever;
  int64_t limit = 0;  // 0 = all
  int gpus_min = 1;
  int gpus_max = 0;  // 0 = any
  double load = 0;   // 0 = times stay
  int load_gpus = 0;
  bool from_first = false;
  bool removed_hosts_failed = false;
  bool host_slots = false;
  size_t most_hosts = 0;  // 0 = all
  double notice_s = 0;
};

// Of the reading's options; values that are none become problems.
Window read_window(Reading& reading);

// Error: InvalidArgument when nothing is left.
absl::StatusOr<Imported> finish(Reading reading, const Window& window);

// What a summary says of contents, whatever they come from: span (hosts: `end_s`), sizes, checksum.
void summarize(Imported& imported, double end_s);

}  // namespace scalai::trace
