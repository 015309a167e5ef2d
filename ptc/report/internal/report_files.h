#pragma once
// The texts of a report's tables, one function a file. Columns are documented in docs/reports.md.

#include <string>

#include "ptc/report/report.h"

namespace scalai::report {

// The name of a job by its index in the scenario.
const std::string& job_name(const control::RunReport& report, int job);

// One line a transfer, in order of end.
std::string transfers_csv(const control::RunReport& report);
// One line a device of the cluster.
std::string devices_csv(const control::RunReport& report);

// Viewers hold a trace in memory. Beyond these the largest are shown, and tracks say what is left out.
struct TraceLimits {
  size_t transfers = 100'000;        // by bytes; two slices and an arrow each
  size_t device_slices = 1'000'000;  // stretches of jobs on devices, by length
  size_t link_samples = 500'000;     // of the links that carry most; two values each
};
std::string perfetto_trace(const control::RunReport& report, const TraceLimits& limits);

}  // namespace scalai::report
