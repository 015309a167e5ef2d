#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/commands.h"
#include "apps/common/output.h"
#include "apps/common/report_folders.h"
#include "ptc/base/file.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/report/report.h"
#include "ptc/run/control/run.h"
#include "ptc/run/scenario/strategy.h"
#include "sim/jobs/scenario/engine_parts.h"
#include "sim/simulated_step_time.h"

namespace scalai::apps {
namespace {

absl::StatusOr<std::string> validated(const std::string& path, const std::string& cluster) {
  scenario::EngineParts parts;
  SCALAI_ASSIGN_OR_RETURN(const scenario::Scenario scenario,
                          scenario::load(path, {.cluster_file = cluster, .engine = &parts}));
  if (scenario.many_jobs) {
    const scenario::ManyJobs& many = *scenario.many_jobs;
    return fmt::format("{} on {}, {} under {}", many.workload_text,
                       counted(many.fleet.gpus() / many.fleet.per_gpu, "GPU"),
                       parts.recovery ? "1 job" : counted(std::ssize(many.workload.jobs), "job"),
                       scenario.policy->name.empty() ? scenario.policy->exec : scenario.policy->name);
  }
  const auto strategy = scenario::find_strategy(scenario.strategy, scenario.costs);
  SCALAI_CHECK(strategy.ok(), "the scenario has been checked");
  for (const std::string& warning : scenario::warnings_of(*strategy, scenario)) say("{}: warning: {}\n", path, warning);
  return fmt::format("{} on {}, {}", counted(std::ssize(scenario.jobs), "job"),
                     counted(scenario.cluster.device_count(), "device"), counted(std::ssize(scenario.events), "event"));
}

int validate(const Arguments& arguments) {
  const std::vector<std::string>& files = arguments.positional();
  if (std::find(files.begin(), files.end(), "-") != files.end()) return usage_error("validate", kNoStandardInput);
  int worst = 0;
  for (const std::string& path : files) {
    const auto said = validated(path, arguments.text("cluster"));
    if (said.ok()) {
      print("{}: ok: {}\n", path, *said);
      continue;
    }
    worst = std::max(worst, report_error(said.status()));
  }
  return worst;
}

int compare(const Arguments& arguments) {
  std::vector<report::Alternative> alternatives;
  for (const auto& [label, folders] : report_folders(arguments.positional())) {
    alternatives.push_back({label, {}});
    for (const std::string& folder : folders) {
      const auto text = read_file((std::filesystem::path(folder) / "summary.json").string());
      if (!text.ok()) return report_error(text.status());
      alternatives.back().summaries.push_back(*text);
    }
  }
  const auto table = report::compare_alternatives(
      alternatives,
      {.format = arguments.text("format"), .against = report::Against::kFirst, .screen = stdout_screen()});
  if (!table.ok()) return report_error(table.status());
  print(*table);
  if (arguments.text("format") == "table") {
    note_terms(
        "Δ = difference to the first run, of several seeds on the same ones (and where it lies); * = the "
        "best; kept = bytes that stay where they are; bound = "
        "the least bytes that must cross hosts",
        fmt::format("a page to show: scalai report {} --out=report.html", fmt::join(arguments.positional(), " ")));
  }
  return 0;
}

std::string verdict(int differing, int incomplete) {
  if (differing > 0) return "digests differ";
  return incomplete > 0 ? fmt::format("{} missing on one side", incomplete) : "all digests equal";
}

int replay(const Arguments& arguments) {
  const sim::SimulatedStepTime simulated;
  const auto plans = control::replay(arguments.positional().front(), &simulated);
  if (!plans.ok()) return report_error(plans.status());
  int differing = 0, incomplete = 0;
  Table table({"plan>", "recorded", "replayed", ""});
  for (const control::ReplayedPlan& plan : *plans) {
    const bool whole = !plan.recorded.empty() && !plan.replayed.empty();
    const bool different = whole && plan.recorded != plan.replayed;
    incomplete += whole ? 0 : 1;
    differing += different ? 1 : 0;
    table.row({fmt::format("{:03}", plan.number), plan.recorded.empty() ? "missing" : plan.recorded,
               plan.replayed.empty() ? "missing" : plan.replayed,
               different ? "DIFFERENT"
               : whole   ? "same"
                         : "MISSING"});
  }
  print("{}{}, {}\n", table.text(stdout_screen()), counted(std::ssize(*plans), "plan"), verdict(differing, incomplete));
  return differing + incomplete == 0 ? 0 : kExpectationFailed;
}

}  // namespace

Command validate_command() {
  return {
      {.name = "validate",
       .summary = "check scenario files and report all their problems",
       .usage = "scalai validate FILE…",
       .description =
           "Reads each scenario (textproto, or JSON) as `scalai sim` would and reports every problem with its place,\n"
           "an excerpt and a hint. Nothing is run.",
       .options = {text_option("cluster", "FILE", "Cluster file that replaces the scenario's own cluster.")},
       .examples = {"scalai validate scenarios/*.textproto"},
       .min_arguments = 1,
       .max_arguments = -1,
       .endings = kScenarioEndings},
      validate};
}

Command compare_command() {
  return {
      {.name = "compare",
       .summary = "print the reports of several runs side by side",
       .usage = "scalai compare DIR…",
       .description =
           R"(Each DIR is the --out folder of a run, or of several strategies: then all of them are shown, by name: runs
of one job, executed or simulated, of many jobs and of recovery designs. Beside each value stands how
much more or less it is than the first run's, or the best one's; * marks the best. Runs of different
scenarios or seeds are noted and get neither. Two runs of one scenario, one simulated
and one executed, are also compared by reconfiguration and phase: predicted, measured, relative error.)",
       .options = {format_option({"table", "markdown", "csv", "json"})},
       .examples = {"scalai compare out/demo", "scalai compare out/demo/reshard out/demo/tenplex",
                    "scalai compare out/sim out/exec"},
       .min_arguments = 1,
       .max_arguments = -1,
       .endings = kFolderEndings},
      compare};
}

Command replay_command() {
  return {{.name = "replay",
           .summary = "feed a run's events through the control loop again and compare plan digests",
           .usage = "scalai replay DIR",
           .description = "DIR is the --out folder of a run, simulated or executed. Exit code 1 when a digest differs\n"
                          "or a plan is missing.",
           .options = {},
           .examples = {"scalai replay out/demo/reshard"},
           .min_arguments = 1,
           .max_arguments = 1,
           .endings = kFolderEndings},
          replay};
}

}  // namespace scalai::apps
