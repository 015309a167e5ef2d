#pragma once
// Public traces read into our terms: jobs, hosts that come and go, prices. A bad row is an error that names file, row, field and
// reason; all of them are collected (the first 20 are shown). Rows that are valid and of no use (a job without GPUs) are
// dropped, counted by reason. Large files are streamed.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"

namespace scalai::sched {

// Hosts by name, and when they are up. Times from the trace's start; what happened until then is in `availability.up`, which
// has an entry a host.
struct HostTrace {
  std::vector<std::string> hosts;  // host k of the trace is HostId k
  Availability availability;
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

// What was read, for the user.
struct ImportSummary {
  std::string format;
  int64_t rows = 0;                        // read, without headers
  std::map<std::string, int64_t> dropped;  // reason → rows
  double span_s = 0;                       // first to last time
  std::map<int, int64_t> sizes;            // GPUs → jobs (or hosts up → seconds, of a host trace)
  std::string checksum;                    // of what is in the result, whatever form it was read from (ptc/base/hash.h)
  std::vector<std::string> notes;          // quirks of the format that were taken care of
};

struct Imported {
  Workload workload;  // one of the three is filled
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
  std::string summary;  // one line, with where to get it
  std::vector<TraceOption> options;
};

const std::vector<TraceFormat>& trace_formats();

// `set` holds "option=value"; lists in a value are parted by "+". Times of the workload count from its first job, or from the
// file's own 0 (option "origin"). Errors: NotFound (no such file, no right to read it); InvalidArgument with all problems of the
// options, or else all of the rows; or when no job, host or price is left.
absl::StatusOr<Imported> import_trace(const std::string& format, const std::string& path,
                                      const std::vector<std::string>& set = {});

// A trace of several files (a price history by region, a cluster by month), put together in time.
absl::StatusOr<Imported> import_traces(const std::string& format, const std::vector<std::string>& paths,
                                       const std::vector<std::string>& set = {});

// Our own text form ("scalai"): CSV with a first line that says what it is and its version. Reading gives the same values.
std::string export_trace(const Imported& imported);

}  // namespace scalai::sched
