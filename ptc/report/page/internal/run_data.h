#pragma once
// A run of the control loop as its folder holds it, and what a page derives from it: stretches of time, curves, heat,
// bytes between hosts. Pure functions but for load_run().

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/report/chart/panels.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/page/internal/csv_rows.h"
#include "ptc/report/page/internal/trace_reader.h"

namespace scalai::report {

// scenario.resolved.textproto and manifest.json of any kind of run.
struct RunOrigin {
  std::string scenario_text;  // "" = the file is missing
  std::string description;    // the question in words; "" = none
  std::string command_line, revision, started_at;
  std::optional<double> wall_clock_s;
};
RunOrigin read_origin(const std::string& folder);

struct RunData {
  std::string label;
  std::string json;  // summary.json
  Summary summary;
  RunOrigin origin;
  std::optional<RunTrace> trace;
  std::optional<CsvRows> transfers, devices;
  std::vector<std::pair<std::string, CsvRows>> take_ups;  // workers/JOB/take_ups.csv, by job, of real training
  std::vector<std::string> left_out;  // sentences: what this run has not got, and what the page therefore lacks
};

// Errors: those of read_summary and of files that are there but broken, with their path. A missing file is left out.
absl::StatusOr<RunData> load_run(const std::string& label, const std::string& folder, std::string json);

// A stretch of a job's life. `what`: "train", "waiting", "pause" (any phase), "down" (detection, or a step cut off).
struct Stretch {
  double low_s = 0, high_s = 0;
  std::string what, layout;  // of "train" where it is known
};

struct JobTimeline {
  std::string job;
  std::vector<Stretch> stretches;        // ascending; neighbours differ
  std::vector<chart::Point> gpus;        // held, steps
  std::vector<chart::Point> throughput;  // samples/s, steps: 0 while it does not train
};

// From the trace; without one from summary.json, whose waits have no place in time. Throughput is the rate of the
// configuration (batch / step time) where it was computed; else the steps between two changes over the time that
// training took.
std::vector<JobTimeline> timelines_of(const RunData& run);

// Largest use of each of `count` equal intervals from 0 to `end_s`; a value holds until the next one.
std::vector<double> largest_by_interval(const TraceValues& values, double end_s, size_t count);

struct Heat {
  std::vector<std::string> rows;
  std::vector<std::vector<double>> values;
  size_t all_rows = 0;  // before those with the least were left out
  double highest = 0;
};
// Links of one host and kind together ("h0 NIC out"), the largest use of any; at most `most` rows.
Heat link_heat(const RunTrace& trace, double end_s, size_t intervals, size_t most);
// State on devices, or the fullest device of each host where there are more than `most` devices.
Heat memory_heat(const RunTrace& trace, const std::optional<CsvRows>& devices, double end_s, size_t intervals,
                 size_t most);

struct Traffic {
  std::vector<std::string> hosts;           // storage at the end; neighbours together where there are more than `most`
  std::vector<std::vector<double>> bytes;   // from, to
  std::map<std::string, double> elsewhere;  // bytes outside reconfigurations, by phase
};
// Bytes of transfers that were done.
Traffic traffic_of(const CsvRows& transfers, const CsvRows& devices, size_t most);

}  // namespace scalai::report
