#pragma once
// From timings of plans on workers to a cluster file: fits, and what they mean for the simulator's links. No clock and
// no workers here; exec_calibrate.cpp measures.
//
// A series is one kind of plan at several sizes. Its time is modelled as
//
//   t = latency + bytes / rate        fitted with least squares of relative errors, Σ ((latency + bytes/rate) / t − 1)²
//
// on the medians by size, so that small sizes count as much as large ones.
//
// What a series sets in the file:
//
//   pair        one worker pulls from one other        nic
//   together    all workers pull at the same time      machine_copy: what all hosts copy together
//   same host   all devices of one host pull inside it gpu_link: each one's share
//   same device two devices copy on themselves         gpu_kinds.memory_bandwidth: a copy reads and writes
//   the fastest of pair, same host, same device (one)  hosts.copy: a worker does one thing after another
//   write, read a checkpoint                           storage
//   prepare     all workers make room at the same time costs.allocate_rate of scenarios
//
// What a plan costs before its first byte is no property of a link: it is the scenario's transfer_start.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::apps {

double median_of(std::vector<double> values);  // at least one

struct Timing {
  int64_t bytes = 0;
  double seconds = 0;
};

struct LineFit {
  double latency_s = 0;
  double bytes_per_s = 0;
  double worst_error = 0;  // largest |fit − t| / t
};
// Timings of zero bytes or no time are left out. Without two sizes, or when time does not grow with size, the largest
// size alone gives the rate. Error (FailedPrecondition): nothing is left.
absl::StatusOr<LineFit> fit_line(std::span<const Timing> timings);

// One plan, timed several times.
struct Measured {
  std::string series;  // "pair", "together", "same host", "same device", "write", "read", "prepare"
  std::string plan;    // for people: "h0 to h1"
  int64_t bytes = 0;   // that the plan moves; prepare: that a device takes
  std::vector<double> seconds;
};
// The medians of a series, one entry a size, over all plans of it that move so many bytes; rising.
std::vector<Timing> medians_of(std::span<const Measured> measured, const std::string& series);

// What the file describes.
struct CalibratedMachine {
  int hosts = 1;
  int gpus = 1;  // of each host
  int64_t memory_bytes = 0;
  std::vector<std::string> facts;  // comment lines: date, machine, command
};

struct Calibration {
  std::optional<LineFit> pair, together, same_host, same_device;
  double write_bytes_per_s = 0, read_bytes_per_s = 0;  // 0 = not measured
  double allocate_bytes_per_s = 0;                     // of each device, all at the same time; 0 = not measured
  double transfer_start_s = 0;  // mean latency of pair and together, or that of the transfers inside a host
};
// Errors: no series between or inside hosts.
absl::StatusOr<Calibration> calibrate(std::span<const Measured> measured);

// The cluster file: comments with facts, fits and every time that was measured, then the cluster.
std::string cluster_text(const CalibratedMachine& machine, const Calibration& calibration,
                         std::span<const Measured> measured);
// What to put into scenarios: the costs that the executor really has.
std::string costs_text(const Calibration& calibration);

}  // namespace scalai::apps
