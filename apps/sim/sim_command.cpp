#include "apps/sim/sim_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <string_view>
#include <utility>

#include "apps/common/metric_option.h"
#include "apps/common/output.h"
#include "apps/common/run_report.h"
#include "apps/sim/sim_alternatives.h"
#include "apps/sim/sim_cluster.h"
#include "ptc/base/file.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/scenario_set.h"

namespace scalai::apps {
namespace {

constexpr std::string_view kStrategy = "strategy=";

struct Options : RunOptions {
  std::string snapshot, resume;
};

// As a shell counts the end by the signal. Reports are written at the end of a run, so none is cut.
void on_interrupt(int) {
  constexpr std::string_view kText = "\nscalai sim: interrupted\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(128 + SIGINT);
}

std::string foreign_option(const Arguments& arguments) {
  for (const char* name : {"strategy", "scale-model", "check"}) {
    if (arguments.has(name)) return name;
  }
  return "";
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
    const auto scenario = scenario::load(
        options.scenario,
        {.settings = settings, .cluster_file = options.cluster, .scale_model = options.scale, .text = &*options.text});
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

// Of many jobs each run checks the meaning of its own; paths and types are checked here.
int check_settings(const Alternatives& all, const Options& options) {
  for (size_t point = 0; point < scenario::point_count(all.axes); ++point) {
    const auto changed = scenario::with_settings(*options.text, options.scenario,
                                                 scenario::settings_at(all.axes, point, options.settings));
    if (!changed.ok()) return report_error(changed.status());
  }
  return 0;
}

// The words of one run of `scalai`, without settings, folder and format.
std::vector<std::string> words_of_one(const Arguments& arguments, const Options& options) {
  std::vector<std::string> words = {"sim", options.scenario};
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
  const scenario::Head head = scenario::head_of(*options.text, options.scenario, options.settings);
  all.first_seed = head.seed;
  all.name = head.name;
  if (all.seeds > 1)  // they are counted from the one that is set
    std::erase_if(all.settings, [](const std::string& setting) { return setting.starts_with("seed="); });
  const std::vector<std::string> strategies = arguments.list("strategy");
  const int code = many_jobs ? check_settings(all, options)
                             : check_alternatives(all, options, strategies.size() == 1 ? strategies.front() : "");
  if (code != 0) return code;
  if (!options.out.empty()) {
    const absl::Status prepared = prepare_folder(options.out);
    if (!prepared.ok()) return report_error(prepared);
  }
  return run_alternatives(all);
}

// The scenario's file, read once: it says which program runs it, and how.
struct ScenarioFile {
  absl::StatusOr<std::string> text;
  bool many_jobs = false;
};
using FileOnce = std::function<const ScenarioFile&(const Arguments&)>;

FileOnce file_once() {
  return [file = std::make_shared<std::optional<ScenarioFile>>()](const Arguments& arguments) -> const ScenarioFile& {
    if (file->has_value()) return **file;
    const std::string& path = arguments.positional()[0];
    file->emplace(ScenarioFile{read_file(path)});
    (*file)->many_jobs = (*file)->text.ok() && scenario::head_of(*(*file)->text, path).many_jobs;
    return **file;
  };
}

bool of_several(const Arguments& arguments) {
  return arguments.count("seeds") != 1 || arguments.has("vary") || arguments.list("strategy").size() > 1;
}

// What the call has of the options of one run; InvalidArgument: a usage error.
absl::StatusOr<Options> options_of(const Arguments& arguments) {
  SCALAI_ASSIGN_OR_RETURN(const RunOptions common, run_options(arguments));
  Options options{common};
  options.settings = arguments.texts("set");
  SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> metrics, metric_settings(arguments.texts("metric")));
  options.settings.insert(options.settings.end(), metrics.begin(), metrics.end());
  if (arguments.has("seed")) options.settings.push_back(fmt::format("seed={}", arguments.count("seed")));
  options.snapshot = arguments.text("snapshot");
  options.resume = arguments.text("resume");
  return options;
}

int simulate_command(const Arguments& arguments, const ScenarioFile& file, const SimulateOneJob& simulate_one) {
  std::signal(SIGINT, on_interrupt);
  report::Manifest manifest = start_manifest();
  auto found = options_of(arguments);
  if (!found.ok()) return usage_error("sim", message_of(found.status()));
  Options& options = *found;
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
  if (const std::string name = foreign_option(arguments); file.many_jobs && !name.empty()) {
    return usage_error("sim",
                       fmt::format("--{} has no meaning for a scenario with \"workload\" or \"recovery\"", name));
  }
  if (!options.snapshot.empty() || !options.resume.empty()) {
    if (!options.snapshot.empty() && !options.resume.empty())
      return usage_error("sim", "--snapshot and --resume exclude each other: --resume goes on with its file");
    if (!file.many_jobs || !all.axes.empty() || all.seeds > 1)
      return usage_error("sim", "--snapshot and --resume are for one run of a scenario with \"workload\"");
  }
  if (!file.text.ok()) return report_error(file.text.status());
  options.text = *file.text;
  if (!all.axes.empty() || all.seeds > 1) return simulate_several(std::move(all), arguments, options, file.many_jobs);
  if (!file.many_jobs) return simulate_one(arguments, options);
  return simulate_cluster({options, options.snapshot, options.resume, std::move(manifest)});
}

}  // namespace

Command sim_command(SimulateOneJob simulate_one) {
  const FileOnce file = file_once();
  CommandSpec spec{
      .name = "sim",
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
      .endings = kScenarioEndings,
      // One run of a scenario of the control loop needs SimGrid. All else is answered without.
      .program_of = [file](const Arguments& arguments) {
        return of_several(arguments) || file(arguments).many_jobs ? "scalai" : "scalai-sim";
      }};
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
  return {std::move(spec), [file, simulate_one = std::move(simulate_one)](const Arguments& arguments) {
            return simulate_command(arguments, file(arguments), simulate_one);
          }};
}

}  // namespace scalai::apps
