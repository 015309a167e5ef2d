#pragma once
// The texts of a report's tables, one function a file. Columns are documented in ptc/control/README.md.

#include <string>

#include "ptc/control/report.h"

namespace scalai::control {

// The name of a job by its index in the scenario.
const std::string& job_name(const RunReport& report, int job);

// Everything that an Event holds, numbers in their shortest exact form: parse_events() gets the same events back.
std::string events_csv(const RunReport& report);
// One line a transfer, in order of end.
std::string transfers_csv(const RunReport& report);
// One line a device of the cluster.
std::string devices_csv(const RunReport& report);

}  // namespace scalai::control
