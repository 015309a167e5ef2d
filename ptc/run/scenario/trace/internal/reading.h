#pragma once
// What the readers of formats share: the options given, the problems found, and what is read so far. A reader adds
// jobs, host changes or prices with absolute times; import.cpp sorts, cuts and sums up.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ptc/run/scenario/trace/import.h"
#include "ptc/run/scenario/trace/lines.h"
#include "ptc/run/scenario/trace/problems.h"

namespace scalai::trace {

// Values of a format's options, defaults filled in. Asking for one that the format lacks is a bug (CHECK); a value that
// is none becomes a problem, and the default is given.
class OptionValues {
 public:
  // `set` holds "name=value". Unknown names, values given twice and texts without "=" are problems.
  static OptionValues parse(const std::string& format, const std::vector<TraceOption>& options,
                            const std::vector<std::string>& set, Problems& problems);

  const std::string& text(const std::string& name) const;
  bool has(const std::string& name) const { return values_.count(name) != 0; }
  bool given(const std::string& name) const { return !text(name).empty(); }
  // These add a problem when the text is no such value.
  int64_t count(const std::string& name, int64_t low, int64_t high, Problems& problems) const;
  double seconds(const std::string& name, Problems& problems) const;  // "30min"; "" = policy::kNever
  double number(const std::string& name, double low, double high, Problems& problems) const;
  std::string choice(const std::string& name, const std::vector<std::string>& choices, Problems& problems) const;
  std::vector<std::string> list(const std::string& name) const;  // parted by "+" (a comma would end a scenario's value)

 private:
  std::string format_;
  std::map<std::string, std::string> values_;
};

// One change of a host, or of several: up or gone.
struct HostChange {
  double at_s = 0;
  bool up = true;
  int host = 0;            // index in Reading::hosts
  std::string cause = {};  // of a loss; "" = the trace does not say
};

// A number of hosts from a time on.
using Counts = std::vector<std::pair<double, int>>;

// "dir/name.json" → "name".
std::string stem_of(const std::string& path);

struct Reading {
  OptionValues options;
  Problems problems;
  ImportSummary summary;
  TraceContent content = TraceContent::kJobs;
  std::string source;         // the file, or first file, for messages
  int file = 1;               // which of several is read
  BytesRead bytes_read;       // may be empty
  std::string workload_name;  // of our own form; else the file's

  std::vector<policy::Job> jobs;
  std::vector<std::string> hosts;
  std::vector<HostChange> changes;                               // in any order; those of one instant in theirs
  std::vector<uint8_t> present;                                  // by host, after the rows so far
  std::vector<uint8_t> up_at_start;                              // our own form: by host …
  std::vector<policy::FleetEvent> events;                        // … and then
  double host_end_s = -std::numeric_limits<double>::infinity();  // the trace goes on until then at least
  std::vector<PriceTrace::Point> prices;

  // Seconds since 1970 (or whatever the format's clock is) at which time 0 lies; absent: the first time read.
  std::optional<double> origin;
  std::unordered_set<std::string> names;  // of jobs, so far; never iterated

  // Counted for notes.
  int64_t left_deadlines = 0;   // SLO ratios without a run time to count in
  int64_t other_durations = 0;  // stated durations that are not end less start
  int64_t type_limits = 0;      // jobs that need certain GPU types

  void note(const std::string& text) { summary.notes.push_back(text); }
  void drop(const std::string& reason) { ++summary.dropped[reason]; }
  // False, and a problem, when the file has a job of this name already. Jobs of a second file are called "2/…": logs of
  // several clusters number their jobs each for itself.
  bool add(const Place& place, policy::Job job);
  // Index of a host, new or known.
  int host_of(const std::string& name);
  // A host comes or goes; a problem when it is there, or gone, already.
  void change(const Place& place, double at_s, bool up, const std::string& name, const std::string& cause = "");
  // Numbers of hosts without identities, over time: the host that came last is the first to go. Rows out of order are
  // sorted, of two counts at one instant the later row holds; notes say so. Hosts are called `name` and a number.
  void follow(std::vector<std::pair<double, int>> counts, const std::string& name);

 private:
  std::map<std::string, int> host_index_;
};

// Options every format of jobs has.
std::vector<TraceOption> with_job_options(std::vector<TraceOption> own, const std::string& origin);
// Options every format of hosts has. `identity`: default of "hosts"; `removal`: that of "removal".
std::vector<TraceOption> with_host_options(std::vector<TraceOption> own, const std::string& identity,
                                           const std::string& removal = "taken");

// A job that wants `gpus` and runs `duration_s` on them: work in seconds, rigid.
policy::Job duration_job(std::string name, double submit_s, int64_t gpus, double duration_s);

}  // namespace scalai::trace
