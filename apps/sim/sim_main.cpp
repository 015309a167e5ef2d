#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

#include "apps/common/output.h"
#include "apps/common/run_report.h"
#include "apps/common/scratch_folder.h"
#include "apps/sim/sim_family.h"
#include "ptc/base/command.h"
#include "ptc/base/file.h"
#include "ptc/base/process.h"
#include "ptc/base/progress.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/control/run.h"
#include "ptc/report/report.h"
#include "ptc/scenario/scenario_set.h"
#include "sim/sim_runtime.h"
#include "sim/simgrid_backend.h"
#include "sim/simulated_step_time.h"

namespace scalai::apps {
namespace {

// Up to here SimGrid's solver is fast enough; beyond, our exact one takes over (both agree to 1e-6).
constexpr int kSimGridDevices = 256;

struct Options : RunOptions {
  sim::BackendKind network = sim::BackendKind::kSimGrid;
};

absl::StatusOr<control::RunReport> simulate(const scenario::Scenario& scenario, const scenario::Strategy& strategy,
                                            const Options& options) {
  const change::Platform platform(scenario.cluster, change::LinkRates::kReached, strategy.costs.stores);
  const sim::SimulatedStepTime simulated;
  absl::StatusOr<control::RunReport> report = absl::InternalError("the simulation did not run");
  Progress progress("simulating " + strategy.name);
  const absl::Status status = sim::with_backend(options.network, platform.spec(), [&](change::NetworkBackend& backend) {
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
  });
  SCALAI_RETURN_IF_ERROR(status);
  SCALAI_RETURN_IF_ERROR(report.status());
  report->runtime = "sim";
  return report;
}

int run_several(const std::vector<std::string>& strategies, const Arguments& arguments, const Options& options) {
  const ScratchFolder scratch("scalai-sim");
  const std::string folder = options.out.empty() ? scratch.path() : options.out;
  if (folder.empty()) return report_error(missing("cannot create a temporary folder; give one with --out=DIR"));
  std::vector<std::string> passed = {options.scenario, "--network=" + arguments.text("network")};
  if (options.check) passed.push_back("--check");
  if (!options.cluster.empty()) passed.push_back("--cluster=" + options.cluster);
  if (options.scale) passed.push_back("--scale-model=" + options.scale->str());
  for (const std::string& setting : options.settings) passed.push_back("--set=" + setting);
  const auto members = run_family(passed, strategies, folder);
  if (!members.ok()) return report_error(members.status());
  int code = 0;
  std::vector<std::pair<std::string, std::string>> summaries;
  for (const FamilyMember& member : *members) {
    code = std::max(code, member.exit_code);
    const auto summary = read_file(member.folder + "/summary.json");
    if (summary.ok()) summaries.emplace_back(member.strategy, *summary);
  }
  if (summaries.empty()) return code;
  const auto table = report::compare_summaries(summaries, options.format, report::Against::kRatio, stdout_screen());
  if (!table.ok()) return report_error(table.status());
  print(*table);
  if (options.format == "table")
    note_terms("kept = bytes that stay where they are; bound = the least bytes that must cross hosts",
               next_step(options.out));
  if (!options.out.empty()) say("reports: {}/{{{}}}\n", folder, fmt::join(strategies, ","));
  return code;
}

// Reports are kept by strategy, so each runs once. "" = no name comes twice.
std::string repeated(const std::vector<std::string>& names) {
  std::set<std::string> seen;
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const auto& name) { return !seen.insert(name).second; });
  return found == names.end() ? "" : *found;
}

std::string foreign_option(const Arguments& arguments) {
  for (const char* name : {"strategy", "scale-model", "check"}) {
    if (arguments.has(name)) return name;
  }
  return "";
}

// A scenario of many jobs is another program's; it goes on in place of this one.
int simulate_many_jobs(const Arguments& arguments, const Options& options) {
  if (const std::string name = foreign_option(arguments); !name.empty()) {
    return usage_error("sim",
                       fmt::format("--{} has no meaning for a scenario with \"workload\" or \"recovery\"", name));
  }
  std::vector<std::string> words = {"sim", options.scenario, "--format=" + options.format};
  if (!options.cluster.empty()) words.push_back("--cluster=" + options.cluster);
  if (!options.out.empty()) words.push_back("--out=" + options.out);
  for (const std::string& setting : options.settings) words.push_back("--set=" + setting);
  return report_error(become("scalai-jobs", words));
}

// As a shell counts the end by the signal. Reports are written at the end of a run, so none is cut.
void on_interrupt(int) {
  constexpr std::string_view kText = "\nscalai-sim: interrupted\n";
  (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(128 + SIGINT);
}

int simulate_command(const Arguments& arguments) {
  std::signal(SIGINT, on_interrupt);
  const auto common = run_options(arguments);
  if (!common.ok()) return usage_error("sim", message_of(common.status()));
  Options options{*common};
  options.settings = arguments.texts("set");
  if (arguments.has("seed")) options.settings.push_back(fmt::format("seed={}", arguments.count("seed")));
  const auto text = read_file(options.scenario);
  if (text.ok() && scenario::is_cluster_scenario(*text, options.scenario))
    return simulate_many_jobs(arguments, options);
  std::vector<std::string> strategies = arguments.list("strategy");
  if (const std::string name = repeated(strategies); !name.empty()) {
    return usage_error("sim", fmt::format("--strategy names \"{}\" more than once", name));
  }
  int exit_code = 0;
  const std::optional<scenario::Scenario> scenario = load(options, exit_code);
  if (!scenario) return exit_code;
  const std::string network = arguments.text("network");
  const bool large = scenario->cluster.device_count() > kSimGridDevices;
  options.network =
      network == "maxmin" || (network == "auto" && large) ? sim::BackendKind::kMaxMin : sim::BackendKind::kSimGrid;
  if (strategies.empty()) strategies = {scenario->strategy};
  if (!strategies_fit("scalai-sim", *scenario, strategies, exit_code)) return exit_code;
  if (!options.out.empty()) {
    const absl::Status prepared = prepare_folder(options.out);
    if (!prepared.ok()) return report_error(prepared);
  }
  if (strategies.size() == 1) {
    return run_one("scalai-sim", *scenario, strategies.front(), options,
                   [&](const scenario::Strategy& strategy) { return simulate(*scenario, strategy, options); });
  }
  return run_several(strategies, arguments, options);
}

Command sim_command() {
  CommandSpec spec{
      .name = "scalai-sim",
      .summary = "run a scenario in virtual time on a modelled cluster",
      .usage = "scalai sim SCENARIO [--strategy=NAME,…] [--out=DIR]",
      .description =
          R"(Runs the scenario's jobs, events and reconfigurations in virtual time. State moves as flows that share GPU
links, PCIe, NICs and the fabric. Same scenario, same seed: byte-identical reports.

A scenario with a "workload" is many jobs under a scheduler policy (`scalai policies`), one with "recovery" is one
job on hosts that come and go: those are run event by event, and DIR gets jobs.csv, utilization.csv,
jct_cdf.csv, ftf_cdf.csv and costs.csv (throughput.csv for recovery).

Strategies:

)",
      .options = run_option_specs(),
      .examples = {"scalai sim scenarios/elastic-gpt3-xl.textproto",
                   "scalai sim scenarios/elastic-gpt3-xl.textproto --strategy=reshard,tenplex,dp-only --out=out/demo",
                   "scalai sim scenarios/gavel-hetero-jct.textproto --set=policy.name=srtf --out=out/srtf"},
      .min_arguments = 1,
      .max_arguments = 1,
      .endings = kScenarioEndings};
  spec.options.insert(spec.options.begin(),
                      list_option("strategy", "NAME,…",
                                  "Strategies to run, each into DIR/NAME when there are several; without it the "
                                  "scenario's own.",
                                  scenario::strategy_names()));
  spec.options.insert(
      spec.options.end() - 1,
      {texts_option("set", "PATH=VALUE",
                    "Another value of a field of the scenario, as in policy.name=srtf, policy.set.round=60s "
                    "or cluster.hosts[0].count=16; nothing after \"=\" leaves the field out. The scenario's "
                    "expectations are not checked then."),
       count_option("seed", "N", "Another seed than the scenario's; short for --set=seed=N.")});
  spec.options.insert(spec.options.end() - 4,
                      choice_option("network", "SOLVER",
                                    "Flow solver: SimGrid, our exact max-min solver, or SimGrid up to 256 devices.",
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
