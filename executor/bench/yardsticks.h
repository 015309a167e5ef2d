#pragma once
// Time of other programs for the same bytes on this machine, now. They run as child processes; a missing program is no
// yardstick. One thread at a time.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace scalai::executor::bench {

// Median seconds of one thread to copy this number of bytes between two arrays, both touched before.
double memcpy_seconds(int64_t bytes, int repetitions);

// Path of a program on PATH; nullopt: none.
std::optional<std::string> find_program(const std::string& name);

struct AlltoallwOptions {
  std::string program;  // tests/bench/alltoallw_bench.cpp
  std::string log_file;
  int ranks = 2;
  int64_t rows = 0, columns = 0;
  int repetitions = 5;
  double timeout_s = 300;
};
// Median seconds of MPI_Alltoallw for the row → column change, one process per rank. NotFound: no mpirun on PATH, or no
// program. Unavailable: it failed; the message has its last line.
absl::StatusOr<double> alltoallw_seconds(const AlltoallwOptions& options);

struct UcxOptions {
  std::string log_file;
  int64_t bytes = 0;
  double timeout_s = 120;
};
// Seconds for this number of bytes between two processes, at the bandwidth that ucx_perftest reports for large tagged
// messages over TCP. NotFound: no ucx_perftest on PATH. Unavailable: it failed.
absl::StatusOr<double> ucx_seconds(const UcxOptions& options);

// Parsers for the above: the number `seconds` of the last line that is a JSON object; bytes per second in the last line
// of ucx_perftest's final-only CSV output.
absl::StatusOr<double> seconds_in(const std::string& output);
absl::StatusOr<double> bandwidth_in(const std::string& output);

}  // namespace scalai::executor::bench
