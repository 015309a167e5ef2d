#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "apps/common/metric_option.h"
#include "apps/common/output.h"
#include "apps/common/run_report.h"
#include "apps/sim/sim_alternatives.h"
#include "ptc/base/command.h"
#include "ptc/base/file.h"
#include "ptc/base/process.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/report/report.h"
#include "ptc/run/control/run.h"
#include "ptc/run/scenario/scenario_set.h"
#include "sim/sim_runtime.h"
#include "sim/simgrid_backend.h"
#include "sim/simulated_step_time.h"

namespace scalai::apps {
namespace {

// Up to here SimGrid's solver is fast enough; beyond, ours takes over, which agrees to 1e-6 where it is exact.
constexpr int kSimGridDevices = 256;
// There rates do not change more often than networks change them: congestion control takes some round trips, DCQCN's
// timers have 55 us (Zhu et al., SIGCOMM 2015). A change of 405B parameters has thousands of ends of flows in that
// time.
constexpr double kResolution_s = 100e-6;
constexpr std::string_view kStrategy = "strategy=";

struct Options : RunOptions {
  std::string snapshot, resume;
  sim::BackendKind network = sim::BackendKind::kSimGrid;
  double resolution_s = 0;
};

absl::StatusOr<control::RunReport> simulate(const scenario::Scenario& scenario, const scenario::Strategy& strategy,
                                            const Options& options) {
  const change::Platform platform(scenario.cluster, change::LinkRates::kReached, strategy.costs.stores);
  const sim::SimulatedStepTime simulated;
  absl::StatusOr<control::RunReport> report = absl::InternalError("the simulation did not run");
  Progress progress("simulating " + strategy.name);
  const auto body = [&](change::NetworkBackend& backend) {
    control::Recorder recorder;
    sim::SimRuntime runtime(scenario.cluster, platform, backend, recorder);
    const auto show = [&](double at_s, const control::Control&) {
      progress.update(scenario.until_s ? at_s / *scenario.until_s : 0, fmt::format("at {:.0f} s", at_s));
    };
    report = control::run(
        scenario, strategy, runtime,
        {.check_plans = options.check, .simulated = &simulated, .report_when_policy_fails = true, .watch = show});
    runtime.close();
    if (report.ok()) report->recorder = std::move(recorder);
  };
  SCALAI_RETURN_IF_ERROR(sim::with_backend(options.network, platform.spec(), body, options.resolution_s));
  SCALAI_RETURN_IF_ERROR(report.status());
  report->runtime = "sim";
  report->resolution_s = options.resolution_s;
  return report;
}

std::string foreign_option(const Arguments& arguments) {
  for (const char* name : {"strategy", "scale-model", "check"}) {
    if (arguments.has(name)) return name;
  }
  return "";
}

// A scenario of many jobs is another program's; it goes on in place of this one.
int simulate_many_jobs(const Options& options) {
  std::vector<std::string> words = {"sim", options.scenario, "--format=" + options.format};
  if (!options.cluster.empty()) words.push_back("--cluster=" + options.cluster);
  if (!options.out.empty()) words.push_back("--out=" + options.out);
  if (!options.snapshot.empty()) words.push_back("--snapshot=" + options.snapshot);
  if (!options.resume.empty()) words.push_back("--resume=" + options.resume);
  for (const std::string& setting : options.settings) words.push_back("--set=" + setting);
  return report_error(become("scalai-jobs", words));
}

// As a shell counts the end by the signal. Reports are written at the end of a run, so none is cut.
void on_interrupt(int) {
  constexpr std::string_view kText = "\nscalai sim: interrupted\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(128 + SIGINT);
}

// Whether each alternative of one job's scenario runs; problems go to stderr, each once. The exit code.
int check_alternatives(const Alternatives& all, const Options& options, const std::string& own_strategy) {
  std::set<std::string> said;
  int exit_code = 0;
  for (size_t point = 0; point < scenario::point_count(all.axes); ++point) {
    std::vector<std::string> settings = scenario::settings_at(all.axes, point, options.settings);
    std::string strategy = own_strategy;
    std::erase_if(settings, [&](const std::string& setting) {  // it is given by its option
      const bool known =
          setting.starts_with(kStrategy) && scenario::find_strategy(setting.substr(kStrategy.size()), {}).ok();
      if (known) strategy = setting.substr(kStrategy.size());
      return known;
    });
    const auto scenario = scenario::load_scenario(options.scenario, options.cluster, options.scale, settings);
    if (!scenario.ok()) {
      exit_code = std::max(exit_code, exit_code_of(scenario.status()));
      if (said.insert(message_of(scenario.status())).second) report_error(scenario.status());
      continue;
    }
    if (strategy.empty()) strategy = scenario->strategy;
    int code = 0;
    if (said.insert(strategy).second && !strategies_fit("scalai sim", *scenario, {strategy}, code))
      exit_code = std::max(exit_code, code);
  }
  return exit_code;
}

// Of many jobs another program checks the meaning, when it runs them; paths and types are checked here.
int check_settings(const Alternatives& all, const Options& options, const std::string& text) {
  for (size_t point = 0; point < scenario::point_count(all.axes); ++point) {
    const auto changed =
        scenario::with_settings(text, options.scenario, scenario::settings_at(all.axes, point, options.settings));
    if (!changed.ok()) return report_error(changed.status());
  }
  return 0;
}

// The words of one run of `scalai-sim`, without settings, folder and format.
std::vector<std::string> words_of_one(const Arguments& arguments, const Options& options) {
  std::vector<std::string> words = {options.scenario};
  for (const char* name : {"network", "cluster", "scale-model"})
    if (arguments.has(name)) words.push_back(fmt::format("--{}={}", name, arguments.text(name)));
  if (arguments.list("strategy").size() == 1) words.push_back("--strategy=" + arguments.list("strategy").front());
  if (options.check) words.push_back("--check");
  return words;
}

int simulate_several(Alternatives all, const Arguments& arguments, const Options& options, bool many_jobs) {
  all.words = words_of_one(arguments, options);
  all.settings = options.settings;
  all.out = options.out;
  all.format = options.format;
  const auto text = read_file(options.scenario);
  if (!text.ok()) return report_error(text.status());
  const scenario::Head head = scenario::head_of(*text, options.scenario, options.settings);
  all.first_seed = head.seed;
  all.name = head.name;
  if (all.seeds > 1)  // they are counted from the one that is set
    std::erase_if(all.settings, [](const std::string& setting) { return setting.starts_with("seed="); });
  const std::vector<std::string> strategies = arguments.list("strategy");
  const int code = many_jobs ? check_settings(all, options, *text)
                             : check_alternatives(all, options, strategies.size() == 1 ? strategies.front() : "");
  if (code != 0) return code;
  if (!options.out.empty()) {
    const absl::Status prepared = prepare_folder(options.out);
    if (!prepared.ok()) return report_error(prepared);
  }
  return run_alternatives(all);
}

int simulate_one(const Arguments& arguments, Options options) {
  int exit_code = 0;
  const std::optional<scenario::Scenario> scenario = load(options, exit_code);
  if (!scenario) return exit_code;
  const std::string network = arguments.text("network");
  const bool large = scenario->cluster.device_count() > kSimGridDevices;
  options.network =
      network == "maxmin" || (network == "auto" && large) ? sim::BackendKind::kMaxMin : sim::BackendKind::kSimGrid;
  options.resolution_s = network == "auto" && large ? kResolution_s : 0;
  const std::vector<std::string> strategies = arguments.list("strategy");
  const std::string strategy = strategies.empty() ? scenario->strategy : strategies.front();
  if (!strategies_fit("scalai sim", *scenario, {strategy}, exit_code)) return exit_code;
  if (!options.out.empty()) {
    const absl::Status prepared = prepare_folder(options.out);
    if (!prepared.ok()) return report_error(prepared);
  }
  return run_one("scalai sim", *scenario, strategy, options,
                 [&](const scenario::Strategy& chosen) { return simulate(*scenario, chosen, options); });
}

int simulate_command(const Arguments& arguments) {
  std::signal(SIGINT, on_interrupt);
  const auto common = run_options(arguments);
  if (!common.ok()) return usage_error("sim", message_of(common.status()));
  Options options{*common};
  options.settings = arguments.texts("set");
  const auto metrics = metric_settings(arguments.texts("metric"));
  if (!metrics.ok()) return usage_error("sim", message_of(metrics.status()));
  options.settings.insert(options.settings.end(), metrics->begin(), metrics->end());
  if (arguments.has("seed")) options.settings.push_back(fmt::format("seed={}", arguments.count("seed")));
  Alternatives all;
  all.seeds = static_cast<size_t>(arguments.count("seeds"));
  auto axes = axes_of(arguments);
  if (!axes.ok()) return usage_error("sim", message_of(axes.status()));
  all.axes = *std::move(axes);
  if (all.seeds == 0) return usage_error("sim", "--seeds is at least 1");
  const bool of_seed =
      std::any_of(all.axes.begin(), all.axes.end(), [](const scenario::Axis& axis) { return axis.path == "seed"; });
  if (of_seed && all.seeds > 1) return usage_error("sim", "--vary=seed=… and --seeds exclude each other");
  if (scenario::point_count(all.axes) > kMostAlternatives / all.seeds)
    return usage_error("sim", fmt::format("that would be more than {} runs; `scalai sweep` goes on where it was "
                                          "interrupted",
                                          kMostAlternatives));
  const auto text = read_file(options.scenario);
  const bool many_jobs = text.ok() && scenario::is_cluster_scenario(*text, options.scenario);
  if (const std::string name = foreign_option(arguments); many_jobs && !name.empty()) {
    return usage_error("sim",
                       fmt::format("--{} has no meaning for a scenario with \"workload\" or \"recovery\"", name));
  }
  options.snapshot = arguments.text("snapshot");
  options.resume = arguments.text("resume");
  if (!options.snapshot.empty() || !options.resume.empty()) {
    if (!options.snapshot.empty() && !options.resume.empty())
      return usage_error("sim", "--snapshot and --resume exclude each other: --resume goes on with its file");
    if (!many_jobs || !all.axes.empty() || all.seeds > 1)
      return usage_error("sim", "--snapshot and --resume are for one run of a scenario with \"workload\"");
  }
  if (!all.axes.empty() || all.seeds > 1) return simulate_several(std::move(all), arguments, options, many_jobs);
  return many_jobs ? simulate_many_jobs(options) : simulate_one(arguments, options);
}

Command sim_command() {
  CommandSpec spec{
      .name = "scalai-sim",
      .summary = "run a scenario in virtual time on a modelled cluster",
      .usage = "scalai sim SCENARIO [--strategy=NAME,…] [--vary=PATH=A,B,…] [--out=DIR]",
      .description =
          R"(Runs the scenario's jobs, events and reconfigurations in virtual time. State moves as flows that share GPU
links, PCIe, NICs and the fabric. Same scenario, same seed: byte-identical reports.

A scenario with a "workload" is many jobs under a scheduler policy (`scalai policies`), one with "recovery" is one
job on hosts that come and go: those are run event by event, and DIR gets jobs.csv, utilization.csv,
jct_cdf.csv, ftf_cdf.csv and costs.csv (throughput.csv for recovery).

With --vary, several --strategy or --seeds, each alternative runs in a process of its own, into a folder of
its own, and one table compares them (as `scalai compare DIR` does later): the difference to the first, the
best marked with *, and of several seeds the median ± the distance to the further end of its interval.

Strategies:

)",
      .options = run_option_specs(),
      .examples =
          {"scalai sim scenarios/elastic-gpt3-xl.textproto",
           "scalai sim scenarios/elastic-gpt3-xl.textproto --strategy=reshard,tenplex,dp-only --out=out/demo",
           "scalai sim scenarios/gavel-hetero-jct.textproto --set=policy.name=srtf --out=out/srtf",
           "scalai sim scenarios/busy-vc.textproto --vary=policy.name=srtf,tiresias --out=out/policies",
           "scalai sim scenarios/failure-rate-sweep.textproto --vary=recovery.design=reshard,templates --seeds=5"},
      .min_arguments = 1,
      .max_arguments = 1,
      .endings = kScenarioEndings};
  spec.options.insert(spec.options.begin(),
                      list_option("strategy", "NAME,…",
                                  "Strategies to run, each into DIR/NAME when there are several (short for "
                                  "--vary=strategy=NAME,…); without it the scenario's own.",
                                  scenario::strategy_names()));
  spec.options.insert(
      spec.options.end() - 1,
      {texts_option("set", "PATH=VALUE",
                    "Another value of a field of the scenario, as in policy.name=srtf, policy.set.round=60s "
                    "or cluster.hosts[0].count=16; nothing after \"=\" leaves the field out. The scenario's "
                    "expectations are not checked then."),
       texts_option("vary", "PATH=A,B,…",
                    "Alternatives: a field and its values, as in policy.name=srtf,tiresias; with several --vary all "
                    "combinations. A comma inside a value is written \"\\,\". Parameters that only another policy or "
                    "recovery design knows are left out, with a note."),
       texts_option(
           "metric", "NAME=EXPR",
           "A metric of your own for scenarios of many jobs: an SQL expression over the columns of jobs.csv, as "
           "in \"slow=mean(ftf > 1)\", or with FROM utilization or another CSV file of the report at its end; short "
           "for --set=metrics.set.NAME=EXPR."),
       text_option("snapshot", "FILE",
                   "Of many jobs: keeps what costs time (decisions of policy programs, shares by linear programs, "
                   "what pollux and sia found) in a new file, as the run goes on."),
       text_option("resume", "FILE",
                   "Goes on with such a file after the run was killed: the same report, without asking again."),
       count_option("seed", "N", "Another seed than the scenario's; short for --set=seed=N."),
       count_option("seeds", "N", "Runs of each alternative, with the seeds s, s + 1, … from the scenario's.", "1")});
  spec.options.insert(
      spec.options.end() - 4,
      choice_option(
          "network", "SOLVER",
          "Flow solver: SimGrid, our exact max-min solver, or SimGrid up to 256 devices and beyond them ours, "
          "to which ends of flows within 100 us of each other are one moment.",
          {"auto", "simgrid", "maxmin"}, "auto"));
  for (const scenario::Strategy& strategy : scenario::strategies()) {
    const bool first = strategy.name == scenario::strategies().front().name;
    spec.description += fmt::format("{}  {:<20}{}", first ? "" : "\n", strategy.name, strategy.summary);
  }
  return {std::move(spec), simulate_command};
}

}  // namespace
}  // namespace scalai::apps

int main(int argc, char** argv) {
  const scalai::Program program{.name = "scalai-sim",
                                .summary = "Runs a scenario in virtual time on a modelled cluster.",
                                .commands = {scalai::apps::sim_command()},
                                .single = true};
  return scalai::run_program(program, argc, argv);
}
