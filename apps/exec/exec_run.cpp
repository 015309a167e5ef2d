#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "apps/common/output.h"
#include "apps/exec/exec_commands.h"
#include "apps/exec/exec_controller.h"
#include "apps/exec/exec_inputs.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

int run_command(const Arguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // nobody listens any more: no reason to let go of a job
  const bool resume = arguments.has("resume");
  if (resume != arguments.positional().empty())
    return usage_error("exec", resume ? "--resume takes no scenario: the run has its own" : "which scenario?");
  if (resume) return continue_run(arguments.text("resume"), arguments.text("format"));
  const auto common = run_options(arguments);
  if (!common.ok()) return usage_error("exec", message_of(common.status()));
  auto request = read_request(arguments, *common);
  if (!request.ok()) return usage_error("exec", message_of(request.status()));
  ExecRequest& options = *request;
  options.how.time_scale = arguments.has("time-scale") ? arguments.seconds("time-scale") : 0;
  options.plan_only = arguments.flag("plan-only");
  int exit_code = 0;
  const std::optional<scenario::Scenario> scenario = load(options.run, exit_code);
  if (!scenario) return exit_code;
  const std::string strategy = arguments.has("strategy") ? arguments.text("strategy") : scenario->strategy;
  if (!strategies_fit("scalai exec", *scenario, {strategy}, exit_code)) return exit_code;
  if (scenario->policy) options.how.policy_folder = absolute_path(scenario->policy->folder);
  auto states = states_of(*scenario, arguments.list("state"));
  if (!states.ok()) return report_error(states.status());
  options.how.states = *std::move(states);
  if (const absl::Status apart = check_apart("--state", options.how.states, options.run.out); !apart.ok())
    return report_error(apart);
  auto mounts = mounts_of(*scenario, arguments.list("mount"));
  if (!mounts.ok()) return report_error(mounts.status());
  options.how.mounts = *std::move(mounts);
  auto trainers = trainers_of(*scenario, options.how.state, arguments.texts("train"));
  if (!trainers.ok()) return report_error(trainers.status());
  options.how.trainers = *std::move(trainers);
  if (options.how.standby && options.how.trainers.empty()) return usage_error("exec", "--standby goes with --train");
  if (!options.how.last_checkpoint && options.how.trainers.empty())
    return usage_error("exec", "--no-last-checkpoint goes with --train");
  if (!options.plan_only) {
    auto datasets = datasets_of(*scenario);
    if (!datasets.ok()) return report_error(datasets.status());
    options.how.datasets = *std::move(datasets);
    if (const absl::Status apart = check_apart("dataset", options.how.datasets, options.run.out); !apart.ok())
      return report_error(apart);
  }
  return begin_run(*scenario, strategy, options);
}

std::vector<OptionSpec> exec_option_specs() {
  const std::vector<OptionSpec> strategy = {
      choice_option("strategy", "NAME", "Strategy to run; without it the scenario's own.", scenario::strategy_names())};
  const std::vector<OptionSpec> own = {
      list_option(
          "mount", "[JOB=]DIR",
          "A mount of `scalai fs` whose dataset/current is to point where a job reads: its data-parallel degree "
          "and the step at which it took that up."),
      texts_option("train", "[JOB=]COMMAND",
                   "Real training: this program in place of emulated training, once for each device, with "
                   "`scalai.attach()` (python/README.md). Once for each job."),
      seconds_option("time-scale", "TIME", "Real time that passes for a second of the scenario; without it none does."),
      flag_option("plan-only", "Make the plans that the run would make, and move nothing."),
      text_option("resume", "DIR",
                  "Go on, as it was started, with the run in this --out folder, whose controller has died.")};
  return joined({strategy, run_option_specs(), own, controller_option_specs(), state_option_specs()});
}

}  // namespace

Command exec_run_command() {
  return {
      {.name = "scalai-exec",
       .summary = "run a scenario for real, on worker processes",
       .usage = "scalai exec SCENARIO --out=DIR [--scale-model=1/8]\n"
                "       scalai exec --resume=DIR\n"
                "       scalai exec worker|ctl|bench|calibrate|doctor --help",
       .description =
           R"(Runs the scenario's jobs, events and reconfigurations on worker processes, one a host, that hold real bytes in
host memory or, with --backend=cuda, on GPUs. Every byte is checked after each reconfiguration; a failed host's worker is killed. Plans are those
of `scalai sim`.)",
       .options = exec_option_specs(),
       .examples = {"scalai exec scenarios/redeploy-gpt3-1.3b.textproto --scale-model=1/8 --out=out/exec",
                    "scalai exec my.textproto --out=out/gpu --backend=cuda --devices-per-gpu=8",
                    "scalai exec --resume=out/exec"},
       .max_arguments = 1,
       .operands = {"worker", "ctl", "bench", "calibrate"},
       .endings = kScenarioEndings},
      run_command};
}

}  // namespace scalai::apps
