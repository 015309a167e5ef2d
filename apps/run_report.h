#pragma once
// What `scalai sim` and `scalai exec` have in common: options, loading the scenario, writing and printing the report,
// expectations and exit codes.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ptc/base/command.h"
#include "ptc/control/report.h"
#include "ptc/control/strategy.h"
#include "ptc/model/scaling.h"

namespace scalai::apps {

struct RunOptions {
  std::string scenario, cluster, out, format;
  std::optional<model::Fraction> scale;
  std::vector<std::string> settings;  // "PATH=VALUE" (ptc/control/scenario_set.h)
  bool check = false;
};

// --out, --cluster, --scale-model, --check and --format.
std::vector<OptionSpec> run_option_specs();
// Error: a value that means nothing (the message begins with the option).
absl::StatusOr<RunOptions> run_options(const Arguments& arguments);
// The scenario with the options' cluster, scale and settings; on bad input its problems are on stderr and `exit_code` is set.
std::optional<control::Scenario> load(const RunOptions& options, int& exit_code);
// What manifest.json says of this process, from now on.
control::Manifest start_manifest();
// Makes the folder and sees that it can be written: a run would only notice at its end.
absl::Status prepare_folder(const std::string& folder);

// Runs one strategy, writes and prints the report; the process's exit code. `program`: "scalai-sim".
// `written`, if any, is called when the report is there.
using Run = std::function<absl::StatusOr<control::RunReport>(const control::Strategy&)>;
int run_one(const std::string& program, const control::Scenario& scenario, const std::string& strategy,
            const RunOptions& options, const Run& run, const std::function<void()>& written = {});

}  // namespace scalai::apps
