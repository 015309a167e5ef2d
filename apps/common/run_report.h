#pragma once
// Shared by `scalai sim` and `scalai exec`: options, loading the scenario, writing and printing the report,
// expectations and exit codes. One thread.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ptc/base/command.h"
#include "ptc/report/report.h"
#include "ptc/run/scenario/strategy.h"
#include "ptc/state/model/scaling.h"

namespace scalai::apps {

struct RunOptions {
  std::string scenario, cluster, out, format;
  std::optional<model::Fraction> scale;
  std::vector<std::string> settings;  // "PATH=VALUE" (ptc/run/scenario/scenario_set.h)
  bool check = false;
  std::optional<std::string> text;  // of the scenario's file, where it has been read
};

// --out, --cluster, --scale-model, --check and --format.
std::vector<OptionSpec> run_option_specs();
// InvalidArgument: an unusable value; the message begins with the option.
absl::StatusOr<RunOptions> run_options(const Arguments& arguments);
// The scenario with the options' cluster, scale and settings. On bad input nullopt: its problems are on stderr, and
// `exit_code` is set.
std::optional<scenario::Scenario> load(const RunOptions& options, int& exit_code);
// Whether the scenario has what these strategies need; else `exit_code` is set, and stderr says what is missing. Of a
// single strategy also warnings go there: several are run by processes of their own, which warn.
bool strategies_fit(const std::string& program, const scenario::Scenario& scenario,
                    const std::vector<std::string>& strategies, int& exit_code);
// For note_terms(): what one does with a report in this folder, or without one ("").
std::string next_step(const std::string& out);
// The present time in UTC, by a format of strftime; at most 31 characters.
std::string utc_now(const char* format);
// The facts of this process for manifest.json, with the present time as its start.
report::Manifest start_manifest();
// Creates the folder and checks that it is writable: otherwise a run would fail at its end.
absl::Status prepare_folder(const std::string& folder);

// Runs one strategy, writes and prints the report; returns the process's exit code. `program`: "scalai-sim". Calls
// `written`, if set, when the report is complete.
using Run = std::function<absl::StatusOr<control::RunReport>(const scenario::Strategy&)>;
int run_one(const std::string& program, const scenario::Scenario& scenario, const std::string& strategy,
            const RunOptions& options, const Run& run, const std::function<void()>& written = {});

}  // namespace scalai::apps
