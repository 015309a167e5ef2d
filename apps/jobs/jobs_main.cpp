#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/common/output.h"
#include "apps/jobs/commands.h"
#include "apps/jobs/sim_cluster.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "sim/jobs/scenario/scenario_sched.h"

// `scalai sim` and `scalai validate` come here with scenarios of many jobs; their help and their checks are theirs.
namespace scalai::apps {
namespace {

OptionSpec cluster_option() {
  return text_option("cluster", "FILE", "Cluster file that replaces the scenario's own cluster.");
}

int simulate(const Arguments& arguments) {
  return simulate_cluster({.scenario = arguments.positional().front(),
                           .cluster = arguments.text("cluster"),
                           .out = arguments.text("out"),
                           .format = arguments.text("format"),
                           .snapshot = arguments.text("snapshot"),
                           .resume = arguments.text("resume"),
                           .settings = arguments.texts("set"),
                           .manifest = start_manifest()});
}

Command sim_command() {
  return {{.name = "sim",
           .summary = "run a scenario of many jobs, or of a recovery design, event by event",
           .usage = "scalai sim SCENARIO [--out=DIR]",
           .description = "The part of `scalai sim` that runs scenarios with \"workload\" or \"recovery\".",
           .options = {cluster_option(), text_option("out", "DIR", "Writes the report into this folder."),
                       format_option(), text_option("snapshot", "FILE", "Keeps costly answers."),
                       text_option("resume", "FILE", "Goes on from these."),
                       texts_option("set", "PATH=VALUE", "Another value of a field of the scenario.")},
           .examples = {"scalai sim scenarios/gavel-hetero-jct.textproto"},
           .min_arguments = 1,
           .max_arguments = 1},
          simulate};
}

int validate(const Arguments& arguments) {
  int worst = 0;
  for (const std::string& path : arguments.positional()) {
    const auto scenario = scenario::load_cluster_scenario(path, {.cluster_file = arguments.text("cluster")});
    if (!scenario.ok()) {
      worst = std::max(worst, report_error(scenario.status()));
      continue;
    }
    const scenario::ClusterScenario& good = **scenario;
    print("{}: ok: {} on {}, {} under {}\n", path, good.workload_text,
          counted(good.fleet.gpus() / good.fleet.per_gpu, "GPU"),
          good.recovery ? "1 job" : counted(std::ssize(good.workload.jobs), "job"),
          good.policy.name.empty() ? good.policy.exec : good.policy.name);
  }
  return worst;
}

Command validate_jobs_command() {
  return {{.name = "validate",
           .summary = "check scenarios of many jobs and report all their problems",
           .usage = "scalai validate FILE…",
           .description = "The part of `scalai validate` that reads scenarios with \"workload\" or \"recovery\".",
           .options = {cluster_option()},
           .examples = {"scalai validate scenarios/gavel-hetero-jct.textproto"},
           .min_arguments = 1,
           .max_arguments = -1},
          validate};
}

}  // namespace
}  // namespace scalai::apps

int main(int argc, char** argv) {
  using namespace scalai::apps;
  const scalai::Program program{
      .name = "scalai-jobs",
      .summary = "Simulates many jobs under scheduler policies, and what such scenarios are made of.",
      .commands = {sim_command(), validate_jobs_command(), import_command(), policies_command(), sweep_command(),
                   breakeven_command()},
      .typed = "scalai",
  };
  return scalai::run_program(program, argc, argv);
}
