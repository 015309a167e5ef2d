#pragma once
// From measured times of plans on workers to a cluster file: fits, and their mapping to the simulator's links. Pure
// functions, without clock and workers; exec_calibrate.cpp measures. Any thread.
//
// A series is one kind of plan at several sizes. Its model is
//
//   t = latency + bytes / rate        least squares of relative errors, Σ ((latency + bytes/rate) / t − 1)²
//
// on the medians by size, so that small sizes count as much as large ones.
//
// Fields of the file, by series:
//
//   pair        one worker pulls from another one         nic
//   together    all workers pull at the same time         machine_copy: total copy rate of all hosts
//   same host   all devices of one host pull inside it    gpu_link: the share of each
//   same device two devices copy on themselves            gpu_kinds.memory_bandwidth: a copy reads and writes
//   the fastest of pair, same host, same device (one)     hosts.copy: a worker does one thing after another
//   write, read a checkpoint                              storage
//   prepare     all workers allocate at the same time     costs.allocate_rate of scenarios
//
// The time of a plan before its first byte belongs to no link: it is the scenario's transfer_start.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::apps {

struct Timing {
  int64_t bytes = 0;
  double seconds = 0;
};

struct LineFit {
  double latency_s = 0;
  double bytes_per_s = 0;
  double worst_error = 0;  // largest |fit − t| / t
};
// Fits a line; skips timings of zero bytes or no time. With fewer than two sizes, or when time does not grow with size,
// the largest size alone gives the rate. FailedPrecondition: no timing is left.
absl::StatusOr<LineFit> fit_line(std::span<const Timing> timings);

// Times of one plan.
struct Measured {
  std::string series;  // "pair", "together", "same host", "same device", "write", "read", "prepare"
  std::string plan;    // for people: "h0 to h1"
  int64_t bytes = 0;   // moved by the plan; prepare: allocated per device
  std::vector<double> seconds;
};
// The medians of a series, one entry per size over all plans of that size, in rising order.
std::vector<Timing> medians_of(std::span<const Measured> measured, const std::string& series);

// Description of the machine for the file.
struct CalibratedMachine {
  int hosts = 1;
  int gpus = 1;  // of each host
  int64_t memory_bytes = 0;
  std::vector<std::string> facts;  // comment lines: date, machine, command
  std::vector<std::string> rows;   // comment lines below the measured times: how rows travel over UCX
};

struct Calibration {
  std::optional<LineFit> pair, together, same_host, same_device;
  double write_bytes_per_s = 0, read_bytes_per_s = 0;  // 0 = not measured
  double allocate_bytes_per_s = 0;                     // per device, all at the same time; 0 = not measured
  double transfer_start_s = 0;  // mean latency of pair and together, or that of the transfers inside a host
};
// FailedPrecondition: no series between or inside hosts.
absl::StatusOr<Calibration> calibrate(std::span<const Measured> measured);

// The cluster file: comments with facts, fits and all measured times, then the cluster.
std::string cluster_text(const CalibratedMachine& machine, const Calibration& calibration,
                         std::span<const Measured> measured);
std::string costs_text(const Calibration& calibration);

}  // namespace scalai::apps
