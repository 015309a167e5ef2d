#pragma once
// The controller of a run: starts the workers or waits for them, carries a scenario out, and writes its report. One
// thread.

#include <string>

#include "apps/common/run_report.h"
#include "apps/common/runs/run_folder.h"
#include "ptc/base/command.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::apps {

struct ExecRequest {
  RunOptions run;
  HowRun how;
  std::string listen;
  bool plan_only = false;
  bool resume = false;
  double notice_s = 0;  // from SIGTERM to the end of all; 0: nobody knows
};

// Options that every command with a controller has: where workers listen and how they start, --verify, --state,
// --standby, TLS.
std::vector<OptionSpec> controller_option_specs();
// These options and those of the state (state_options.h), with `run`, whose folder is made absolute. InvalidArgument:
// an option contradicts another one; the message begins with it.
absl::StatusOr<ExecRequest> read_request(const Arguments& arguments, RunOptions run);

// Each returns the exit code; errors are on stderr.
int begin_run(const scenario::Scenario& scenario, const std::string& strategy, const ExecRequest& request);
// Goes on with an interrupted run, as it was started.
int continue_run(const std::string& folder, const std::string& format);

}  // namespace scalai::apps
