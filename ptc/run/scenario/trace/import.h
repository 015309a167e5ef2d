#pragma once
// Import of public traces: jobs, hosts that come and go, prices. A bad row is an error with file, row, field and
// reason; all are collected, the first 20 are shown. Valid rows without use (a job without GPUs) are dropped and
// counted by reason. Large files are read in a stream. Functions without state; any thread may call them.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"

namespace scalai::trace {

// Hosts by name, and their times up. Times count from the start of the trace. `availability.up` has one entry a host:
// its state at the start.
struct HostTrace {
  std::vector<std::string> hosts;  // host k of the trace is HostId k
  policy::Availability availability;
};

// Prices of instances over time.
struct PriceTrace {
  struct Point {
    double at_s = 0;
    std::string market;       // zone or region
    std::string instance;     // type: "p3.8xlarge"
    double usd_per_hour = 0;  // of the whole instance
  };
  std::vector<Point> points;  // by at_s, ties in order
};

// Facts about an import, for the user.
struct ImportSummary {
  std::string format;
  int64_t rows = 0;                        // read, without headers
  std::map<std::string, int64_t> dropped;  // reason → rows
  double span_s = 0;                       // first to last time
  std::map<int, int64_t> sizes;            // GPUs → jobs; for a host trace: hosts up → seconds
  std::string checksum;                    // of the result, independent of the source format (ptc/base/hash.h)
  std::vector<std::string> notes;          // quirks of the format that the import corrected
};

struct Imported {
  policy::Workload workload;  // one of workload, hosts and prices is filled
  HostTrace hosts;
  PriceTrace prices;
  ImportSummary summary;
};

enum class TraceContent : uint8_t { kJobs, kHosts, kPrices };

struct TraceOption {
  std::string name, default_value, help;
};

struct TraceFormat {
  std::string name;  // "gavel"
  TraceContent content;
  std::string summary;  // one line, with the place to get the data
  std::vector<TraceOption> options;
};

// All formats; static storage.
const std::vector<TraceFormat>& trace_formats();

// Imports one file. `set` holds "option=value"; "+" separates list elements in a value. Times of a workload count from
// its first job, or from the file's own 0 (option "origin"). NotFound: no such file, or no permission to read it.
// InvalidArgument: an unknown format; all problems of the options, else all problems of the rows; or no job, host or
// price is left.
absl::StatusOr<Imported> import_trace(const std::string& format, const std::string& path,
                                      const std::vector<std::string>& set = {});

// A trace in several files (a price history by region, a cluster by month), merged by time. CHECK: at least one path.
// `bytes_read` is called with the bytes read since its last call (JSON documents are read at once, without it).
absl::StatusOr<Imported> import_traces(const std::string& format, const std::vector<std::string>& paths,
                                       const std::vector<std::string>& set = {},
                                       const std::function<void(int64_t)>& bytes_read = {});

// Our own text format ("scalai"): CSV whose first line has the content and the version. Importing it gives equal
// values.
std::string export_trace(const Imported& imported);

}  // namespace scalai::trace
