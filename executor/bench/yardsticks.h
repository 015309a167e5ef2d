#pragma once
// What others need for the same bytes on this machine, now. Programs of others run as child processes; one that is not
// there is no yardstick.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace scalai::executor::bench {

// Median time of copying so many bytes from one array to another, both touched before. One thread.
double memcpy_seconds(int64_t bytes, int repetitions);

// A program on PATH.
std::optional<std::string> find_program(const std::string& name);

struct AlltoallwOptions {
  std::string program;  // tests/bench/alltoallw_bench.cpp
  std::string log_file;
  int ranks = 2;
  int64_t rows = 0, columns = 0;
  int repetitions = 5;
  double timeout_s = 300;
};
// Median time of MPI_Alltoallw for the row → column change, each rank a process. Errors: NotFound (no mpirun on PATH, no
// program), Unavailable (it failed; the last line it printed).
absl::StatusOr<double> alltoallw_seconds(const AlltoallwOptions& options);

struct UcxOptions {
  std::string log_file;
  int64_t bytes = 0;
  double timeout_s = 120;
};
// Time of so many bytes from one process to another at the bandwidth that ucx_perftest reports for large tagged messages
// over TCP. Errors: NotFound (no ucx_perftest on PATH), Unavailable.
absl::StatusOr<double> ucx_seconds(const UcxOptions& options);

// Parts of the above. The number `seconds` of the last line that is a JSON object; bytes per second in the last line of
// ucx_perftest's final-only CSV output.
absl::StatusOr<double> seconds_in(const std::string& output);
absl::StatusOr<double> bandwidth_in(const std::string& output);

}  // namespace scalai::executor::bench
