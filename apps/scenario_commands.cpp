#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "apps/commands.h"
#include "apps/model_options.h"
#include "apps/output.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/control/report.h"
#include "ptc/control/run.h"

namespace scalai::apps {
namespace {

constexpr int kExpectationFailed = 1;

int validate(const Arguments& arguments) {
  int worst = 0;
  for (const std::string& path : arguments.positional()) {
    const auto scenario = control::load_scenario(path, arguments.text("cluster"));
    if (scenario.ok()) {
      print("{}: ok: {} on {} devices, {} events\n", path,
            scenario->jobs.size() == 1 ? std::string("1 job") : fmt::format("{} jobs", scenario->jobs.size()),
            scenario->cluster.device_count(), scenario->events.size());
      continue;
    }
    std::fputs(message_of(scenario.status()).c_str(), stderr);
    if (message_of(scenario.status()).back() != '\n') std::fputc('\n', stderr);
    worst = std::max(worst, exit_code_of(scenario.status()));
  }
  return worst;
}

int compare(const Arguments& arguments) {
  std::vector<std::pair<std::string, std::string>> summaries;
  for (const std::string& folder : arguments.positional()) {
    const auto text = read_file(folder + "/summary.json");
    if (!text.ok()) return report_error(text.status());
    // A trailing slash would leave an empty label.
    std::string label = std::filesystem::path(folder).lexically_normal().filename().string();
    if (label.empty()) label = std::filesystem::path(folder).lexically_normal().parent_path().filename().string();
    summaries.emplace_back(label, *text);
  }
  const auto table = control::compare_summaries(summaries, arguments.text("format"));
  if (!table.ok()) return report_error(table.status());
  print(*table);
  return 0;
}

int replay(const Arguments& arguments) {
  const auto plans = control::replay(arguments.positional().front());
  if (!plans.ok()) return report_error(plans.status());
  bool same = true;
  Table table({"plan>", "recorded", "replayed", ""});
  for (const control::ReplayedPlan& plan : *plans) {
    const bool equal = plan.recorded == plan.replayed;
    same = same && equal;
    table.row({fmt::format("{:03}", plan.number), plan.recorded, plan.replayed, equal ? "same" : "DIFFERENT"});
  }
  print("{}{} plans, {}\n", table.text(), plans->size(), same ? "all digests equal" : "digests differ");
  return same ? 0 : kExpectationFailed;
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
       .options = {{.name = "cluster",
                    .value_name = "FILE",
                    .help = "Cluster file that replaces the scenario's own cluster."}},
       .examples = {"scalai validate scenarios/*.textproto"},
       .min_arguments = 1,
       .max_arguments = -1},
      validate};
}

Command compare_command() {
  return {{.name = "compare",
           .summary = "print the reports of several runs side by side",
           .usage = "scalai compare DIR DIR…",
           .description = "Each DIR is the --out folder of a run; its summary.json is read.",
           .options = {format_option()},
           .examples = {"scalai compare out/demo/reshard out/demo/tenplex"},
           .min_arguments = 1,
           .max_arguments = -1},
          compare};
}

Command replay_command() {
  return {{.name = "replay",
           .summary = "feed a run's events through the control loop again and compare plan digests",
           .usage = "scalai replay DIR",
           .description = "DIR is the --out folder of a run, simulated or executed. Exit code 1 when a digest differs.",
           .options = {},
           .examples = {"scalai replay out/demo/reshard"},
           .min_arguments = 1,
           .max_arguments = 1},
          replay};
}

}  // namespace scalai::apps
