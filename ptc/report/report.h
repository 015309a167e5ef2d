#pragma once
// The report of a run as files and tables, with one schema for both runtimes. docs/reports.md documents every file and
// column. Pure functions of their arguments, except write_report(); any thread may call them.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/screen.h"
#include "ptc/run/control/records.h"

namespace scalai::report {

// Facts that may differ between two equal runs. They go to manifest.json only.
struct Manifest {
  std::string command_line;
  std::string revision;
  double wall_clock_s = 0;  // duration of the run
  std::string started_at;   // RFC 3339
};

std::string manifest_json(const Manifest& manifest);

// The moments at which a simulator plays the run once more (RunReport::moved), because no closed form says what the
// moment of its only failure does: all that the script has from `from_s` on comes later. Nothing: none is needed.
struct Moves {
  double from_s = 0;
  std::vector<double> by_s;
};
std::optional<Moves> moves_to_play(const control::RunReport& report);

// summary.json as text, deterministic, two-space indent, keys in schema order (nlohmann::ordered_json).
std::string summary_json(const control::RunReport& report);

// Writes summary.json, events.csv, transfers.csv, devices.csv, plans/NNN.binpb, scenario.resolved.textproto,
// trace.pftrace and manifest.json into `folder`, which is created if missing. An earlier report there is replaced: its
// summary.json is removed first, the new one is written last. CHECK: report.scenario is set. Errors name the path. One
// call for each folder at a time.
absl::Status write_report(const control::RunReport& report, const Manifest& manifest, const std::string& folder);

// The table for people: one line for each job, then one for each reconfiguration. For an unreadable summary the text is
// the problem.
std::string summary_table(const std::string& summary_json_text, const Screen& screen = {});

// What tables for people show beside the values of runs of one scenario: with kFirst the difference to the
// first run, with the best marked; with kRatio second / first, if there are two.
enum class Against : uint8_t { kNothing, kRatio, kFirst };

// One column of a comparison: a run, or runs of several seeds. Texts of summary.json, at least one.
struct Alternative {
  std::string label;
  std::vector<std::string> summaries;
};

struct CompareOptions {
  std::string format = "table";  // "table", "markdown", "csv" or "json"
  Against against = Against::kRatio;
  Screen screen = {};
  bool varied = false;  // the alternatives differ on purpose, and labels say in what: no note about it
};

// Alternatives side by side; labels name the columns. Runs of many jobs and of recovery designs have rows of their own.
// Of several seeds a value is the median, ± the distance to the further end of its interval (spread_of). Scenarios of
// one name, workload and seed are one question, with differences; others have none. For a simulated and an executed run
// of one scenario, table and JSON also compare predicted and measured values. InvalidArgument: no or unreadable
// summaries, or an unknown format.
absl::StatusOr<std::string> compare_alternatives(const std::vector<Alternative>& alternatives,
                                                 const CompareOptions& options);
// The same for one run each.
absl::StatusOr<std::string> compare_summaries(const std::vector<std::pair<std::string, std::string>>& label_and_json,
                                              const std::string& format, Against against = Against::kRatio,
                                              const Screen& screen = {});

// Compares a summary with the scenario's expectations for `strategy`: one line for each that fails ("" = all hold).
std::string failed_expectations(const scenario::Scenario& scenario, const std::string& strategy,
                                const std::string& summary_json_text);

// What a job does about a notice, in a line for people: "gpt: g2-g3 to be left by 40.0 s, told 30.0 s before: …".
std::string notice_text(const std::string& job, const control::NoticeRecord& notice);

// Perfetto trace (TrackEvent): one track for each device, job and link; counters for link use and state memory.
std::string perfetto_trace(const control::RunReport& report);

}  // namespace scalai::report
