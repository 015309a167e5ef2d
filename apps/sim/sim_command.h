#pragma once
// `scalai sim`, which two programs have: scalai runs scenarios of many jobs, and starts the runs of several
// alternatives; scalai-sim runs one scenario of the control loop, with SimGrid. Each hands over what is the other's.

#include <functional>

#include "apps/common/run_report.h"
#include "ptc/base/command.h"

namespace scalai::apps {

// Runs one scenario of the control loop; returns the exit code.
using SimulateOneJob = std::function<int(const Arguments&, const RunOptions&)>;

// Without the function the program is never asked for such a run.
Command sim_command(SimulateOneJob simulate_one = {});

}  // namespace scalai::apps
