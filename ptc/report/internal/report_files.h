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

}  // namespace scalai::report
