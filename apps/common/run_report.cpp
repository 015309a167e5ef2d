#include "apps/common/run_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "apps/common/output.h"
#include "ptc/base/file.h"
#include "ptc/base/process.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

constexpr int kJobFailed = 5;

void print_summary(const std::string& summary, const std::string& label, const std::string& format,
                   const std::string& out) {
  if (format == "json") {
    print(summary);
  } else if (format == "csv") {
    print(report::compare_summaries({{label, summary}}, format).value());
  } else {
    print(report::summary_table(summary, stdout_screen()));
    note_terms(
        "goodput = samples a second that count; bound = least bytes that must cross hosts; pause = stop to resume",
        next_step(out), trace_hint(out));
  }
}

// An executed run measures phases on this machine, which the scenario's expectations know nothing of.
scenario::Scenario without_durations(scenario::Scenario scenario) {
  std::erase_if(scenario.expectations, [](const scenario::Expectation& expectation) {
    return expectation.metric.find("/phases_s/") != std::string::npos || expectation.metric.ends_with("/pause_s");
  });
  return scenario;
}

}  // namespace

std::string next_step(const std::string& out) {
  if (out.empty()) return "--out=DIR keeps the report; scalai compare DIR… and scalai report DIR… read it";
  const std::string trace = out + "/trace.pftrace";
  return fmt::format(
      "{1}a page to show: scalai report {0} --out=report.html; other runs beside it: scalai compare {0} DIR…", out,
      ::access(trace.c_str(), R_OK) == 0 ? fmt::format("trace: {} in ui.perfetto.dev; ", trace) : "");
}

std::string utc_now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, format, &parts);
  return text;
}

std::vector<OptionSpec> run_option_specs() {
  return {text_option("out", "DIR", "Folder for the report (summary.json, CSV files, plans, trace)."),
          text_option("cluster", "FILE", "Cluster file that replaces the scenario's own cluster."),
          text_option("scale-model", "PART",
                      "Narrower models of the same structure, like 1/8 or 0.125; the scenario's expectations are not "
                      "checked."),
          flag_option("check", "Run every plan through the interpreter before it is used."), format_option()};
}

absl::StatusOr<RunOptions> run_options(const Arguments& arguments) {
  RunOptions options{.scenario = arguments.positional().front(),
                     .cluster = arguments.text("cluster"),
                     .out = arguments.text("out"),
                     .format = arguments.text("format"),
                     .check = arguments.flag("check")};
  if (options.scenario == "-") return invalid(std::string(kNoStandardInput));
  if (!arguments.has("scale-model")) return options;
  const auto scale = model::parse_fraction(arguments.text("scale-model"));
  if (!scale.ok()) return invalid("--scale-model: " + message_of(scale.status()));
  options.scale = *scale;
  return options;
}

std::optional<scenario::Scenario> load(const RunOptions& options, int& exit_code) {
  auto scenario = scenario::load(options.scenario, {.settings = options.settings,
                                                    .cluster_file = options.cluster,
                                                    .scale_model = options.scale,
                                                    .text = options.text ? &*options.text : nullptr});
  if (scenario.ok()) return std::move(*scenario);
  exit_code = report_error(scenario.status());
  return std::nullopt;
}

bool strategies_fit(const std::string& program, const scenario::Scenario& scenario,
                    const std::vector<std::string>& strategies, int& exit_code) {
  exit_code = 0;
  for (const std::string& name : strategies) {
    const auto strategy = scenario::find_strategy(name, {});
    if (!strategy.ok()) continue;  // run_one() says so
    for (const scenario::UnmetNeed& need : scenario::unmet_needs(*strategy, &scenario.cluster, scenario.jobs)) {
      say("{}: error: --strategy={}: {}\nhint: {}\n", program, name, need.problem, need.hint);
      exit_code = exit_code_of(invalid(""));
    }
    if (strategies.size() > 1) continue;
    for (const std::string& warning : scenario::warnings_of(*strategy, scenario))
      say("{}: warning: {}\n", program, warning);
  }
  return exit_code == 0;
}

report::Manifest start_manifest() {
  return {.command_line = command_line(), .revision = SCALAI_REVISION, .started_at = utc_now("%Y-%m-%dT%H:%M:%SZ")};
}

absl::Status prepare_folder(const std::string& folder) {
  SCALAI_RETURN_IF_ERROR(make_folders(folder));
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return missing(fmt::format("{}: cannot write into this folder: {}", folder, std::strerror(errno)));
}

namespace {

// Step times that a scenario gives are of healthy links.
void warn_of_given_step_times(const std::string& program, const scenario::Scenario& scenario) {
  const auto of_links = [](const scenario::ScenarioEvent& event) {
    const auto* const degrade = std::get_if<scenario::Degrade>(&event.what);
    const auto* const fail = std::get_if<scenario::Fail>(&event.what);
    return (degrade != nullptr && !degrade->links.empty()) || (fail != nullptr && !fail->links.empty());
  };
  if (std::none_of(scenario.events.begin(), scenario.events.end(), of_links)) return;
  for (const scenario::JobSpec& job : scenario.jobs) {
    if (std::any_of(job.configs.begin(), job.configs.end(), [](const auto& config) { return config.step_s > 0; }))
      say("{}: warning: job {}: links that fail or degrade do not slow steps whose step_time is given; leave it out to "
          "have them computed\n",
          program, job.name);
  }
}

}  // namespace

int run_one(const std::string& program, const scenario::Scenario& scenario, const std::string& strategy_name,
            const RunOptions& options, const Run& run, const std::function<void()>& written) {
  const auto started = std::chrono::steady_clock::now();
  report::Manifest manifest = start_manifest();
  const auto strategy = scenario::find_strategy(strategy_name, scenario.costs);
  if (!strategy.ok()) return report_error(strategy.status());
  const auto report = run(*strategy);
  if (!report.ok()) return report_error(report.status());
  manifest.wall_clock_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();

  const std::string summary = report::summary_json(*report);
  if (!options.out.empty()) {
    const absl::Status done = report::write_report(*report, manifest, options.out);
    if (!done.ok()) return report_error(done);
  }
  if (written) written();
  print_summary(summary, strategy_name, options.format, options.out);
  int code = 0;
  const std::string failures = report::failed_expectations(
      report->runtime == "exec" ? without_durations(scenario) : scenario, strategy_name, summary);
  if (!failures.empty()) {
    say("{}", failures);
    code = kExpectationFailed;
  }
  warn_of_given_step_times(program, scenario);
  for (const std::string& event : report->unreached) say("{}: warning: {} never happened\n", program, event);
  for (const control::JobRecord& job : report->jobs) {
    if (job.state == "waiting" && !job.failure.empty())
      say("{}: warning: job {} waits at the end: {}\n", program, job.name, job.failure);
    if (job.state != "failed") continue;
    say("{}: error: job {}: {}\n", program, job.name, job.failure);
    code = kJobFailed;
  }
  return code;
}

}  // namespace scalai::apps
