// `scalai launch -- COMMAND`: a training program whose GPUs change, without a scenario.

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "apps/common/output.h"
#include "apps/exec/exec_commands.h"
#include "apps/exec/exec_controller.h"
#include "apps/exec/exec_inputs.h"
#include "apps/exec/launch_scenario.h"
#include "executor/rpc/process.h"
#include "ptc/base/file.h"
#include "ptc/base/say.h"
#include "ptc/base/scratch_folder.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::apps {
namespace {

namespace ex = scalai::executor;

// A number that Slurm tells its jobs; nothing outside of Slurm.
std::optional<int> from_slurm(const char* variable) {
  const char* text = std::getenv("SLURM_JOB_ID") != nullptr ? std::getenv(variable) : nullptr;
  const int number = text != nullptr ? std::atoi(text) : 0;
  return number > 0 ? std::optional(number) : std::nullopt;
}

// The program says what its state is in each layout: it runs once, alone, until Job.start.
absl::Status describe(const std::string& command, const std::string& folder,
                      const std::vector<LaunchedLayout>& layouts) {
  const std::string log = folder + "/log";
  SCALAI_ASSIGN_OR_RETURN(const std::string request, description_request(folder, layouts));
  SCALAI_ASSIGN_OR_RETURN(ex::rpc::Process process,
                          ex::rpc::Process::start({.binary = "/bin/sh",
                                                   .arguments = {"sh", "-c", "exec " + command},
                                                   .environment = {{"SCALAI_DESCRIBE", request}},
                                                   .log_file = log}));
  const std::optional<ex::rpc::ProcessEnd> end = process.wait(std::numeric_limits<double>::infinity());
  std::error_code ignored;
  if (end && end->ok() && std::filesystem::exists(folder + "/job.json", ignored)) return absl::OkStatus();
  const absl::StatusOr<std::string> said = read_file(log);
  return invalid(
      fmt::format("the program did not describe its state: {}\n{}hint: it runs once, alone, until job.start, "
                  "which calls `build` for each layout on the meta device",
                  end && end->ok() ? "it ended before job.start"
                  : end            ? end->str()
                                   : "it has not ended",
                  said.ok() ? *said + (said->ends_with('\n') ? "" : "\n") : ""));
}

struct Launch {
  std::vector<LaunchedLayout> layouts;
  LaunchedJob job;
  std::string command;
};

absl::StatusOr<Launch> read_launch(const Arguments& arguments) {
  Launch launch;
  SCALAI_ASSIGN_OR_RETURN(launch.layouts, launched_layouts(arguments.texts("layout")));
  LaunchedJob& job = launch.job;
  job.steps = arguments.has("steps") ? arguments.count("steps") : 0;
  job.checkpoint_every = arguments.count("checkpoint-every");
  const auto largest = std::max_element(launch.layouts.begin(), launch.layouts.end(),
                                        [](const auto& a, const auto& b) { return a.gpus < b.gpus; });
  job.hosts = arguments.has("hosts") ? static_cast<int>(arguments.count("hosts"))
                                     : from_slurm("SLURM_JOB_NUM_NODES").value_or(1);
  if (job.hosts < 1) return invalid("--hosts is at least 1");
  job.gpus_per_host = arguments.has("gpus-per-host")
                          ? static_cast<int>(arguments.count("gpus-per-host"))
                          : from_slurm("SLURM_GPUS_ON_NODE").value_or((largest->gpus + job.hosts - 1) / job.hosts);
  job.gpus = arguments.has("gpus") ? static_cast<int>(arguments.count("gpus")) : launch.layouts.front().gpus;
  if (largest->gpus > job.hosts * job.gpus_per_host)
    return invalid(fmt::format("--layout={} has {} GPUs; {} hosts with {} each have {}\nhint: --hosts, --gpus-per-host",
                               largest->name, largest->gpus, job.hosts, job.gpus_per_host,
                               job.hosts * job.gpus_per_host));
  const auto first = std::find_if(launch.layouts.begin(), launch.layouts.end(),
                                  [&](const LaunchedLayout& layout) { return layout.gpus == job.gpus; });
  if (first == launch.layouts.end()) return invalid(fmt::format("--gpus={}: no --layout has as many", job.gpus));
  if (job.steps < 1) return invalid("--steps=N is needed: the length of the job");
  for (const std::string& word : arguments.positional())
    launch.command += (launch.command.empty() ? "" : " ") + ex::rpc::quoted_for_shell(word);
  return launch;
}

int launch_command(const Arguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto launch = read_launch(arguments);
  if (!launch.ok()) return usage_error("launch", message_of(launch.status()));
  auto request = read_request(arguments, {.out = arguments.text("out"), .format = arguments.text("format")});
  if (!request.ok()) return usage_error("launch", message_of(request.status()));
  std::optional<ScratchFolder> scratch("scalai-launch");
  if (scratch->path().empty()) return report_error(missing("cannot make a temporary folder"));
  if (const absl::Status told = describe(launch->command, scratch->path(), launch->layouts); !told.ok())
    return report_error(told);
  const auto answer = read_file(scratch->path() + "/job.json");
  if (!answer.ok()) return report_error(answer.status());
  const auto text = launch_scenario(launch->job, launch->layouts, *answer);
  if (!text.ok()) return report_error(text.status());
  const auto scenario = scenario::parse_scenario(*text, scratch->path() + "/launch.textproto",
                                                 [](const std::string& name) { return read_file(name); });
  if (!scenario.ok()) return report_error(scenario.status());
  scratch.reset();  // the scenario has all of it, and a run may be killed
  auto states = states_of(*scenario, arguments.list("state"));
  if (!states.ok()) return report_error(states.status());
  request->how.states = *std::move(states);
  if (const absl::Status apart = check_apart("--state", request->how.states, request->run.out); !apart.ok())
    return report_error(apart);
  auto trainers = trainers_of(*scenario, request->how.state, {launch->command});
  if (!trainers.ok()) return report_error(trainers.status());
  request->how.trainers = *std::move(trainers);
  request->how.launched = true;
  say("scalai exec: {} trains on {} GPUs; for another number: scalai exec ctl resize --run={} --gpus=N\n",
      launch->job.name, launch->job.gpus, request->run.out);
  return begin_run(*scenario, scenario->strategy, *request);
}

}  // namespace

Command exec_launch_command() {
  const std::vector<OptionSpec> own = {
      texts_option("layout", "LAYOUT",
                   "A layout of the job, one for each number of GPUs that it may have. The program's mesh has all axes "
                   "that some layout names."),
      count_option("gpus", "N", "GPUs at the start; without it those of the first layout."),
      count_option("steps", "N", "Steps of the job."),
      count_option("checkpoint-every", "N", "Steps between checkpoints; 0: none.", "0"),
      count_option("hosts", "N", "Hosts; without it those of the Slurm job, else 1."),
      count_option("gpus-per-host", "N",
                   "GPUs, and processes, on each host; without it those of the Slurm job, else as many as the largest "
                   "layout needs."),
      text_option("out", "DIR", "Folder of the run: report, checkpoints, logs, address.")};
  return {
      {.name = "scalai-exec",
       .summary = "train a program whose GPUs change, without a scenario",
       .usage = "scalai launch --layout=LAYOUT… --steps=N --out=DIR [options] -- COMMAND…",
       .description =
           R"(Starts COMMAND once for each GPU, and keeps its state in workers, one a host (docs/howto/training.md). The program calls
scalai.attach(). It is asked first for its state in each layout: it runs once, alone, on the meta device, until job.start. The number of
GPUs changes by `scalai exec ctl resize`, by job.request in the program, and when hosts are lost or drained.)",
       .options = joined({own, controller_option_specs(), state_option_specs(), {format_option()}}),
       .examples =
           {"scalai launch --layout=tp2,pp2,dp2 --layout=tp2,pp2 --steps=1000 --out=out/gpt -- python gpt.py train",
            "scalai exec ctl resize --run=out/gpt --gpus=4",
            "scalai launch --launcher='srun --ntasks-per-node=1' --transport=ucx --layout=dp16 --steps=1000 "
            "--out=out/gpt -- python train.py"},
       .min_arguments = 1,
       .max_arguments = -1},
      launch_command};
}

}  // namespace scalai::apps
