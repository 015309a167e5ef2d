#include <fmt/format.h>

#include <optional>

#include "apps/common/run_report.h"
#include "apps/sim/sim_command.h"
#include "ptc/base/command.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/report/report.h"
#include "ptc/run/control/run.h"
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

struct Options : RunOptions {
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

// The scenario with all that its script has from `from_s` on, its end as well, so much later.
scenario::Scenario moved(scenario::Scenario scenario, double from_s, double by_s) {
  for (scenario::ScenarioEvent& event : scenario.events) {
    auto* const at = std::get_if<scenario::AtTime>(&event.when);
    if (at != nullptr && at->at_s >= from_s) at->at_s += by_s;
  }
  if (scenario.until_s) *scenario.until_s += by_s;
  return scenario;
}

// Once more at a few other moments of a single failure, where the report needs them.
absl::StatusOr<control::RunReport> simulate_moments(const scenario::Scenario& scenario,
                                                    const scenario::Strategy& strategy, const Options& options) {
  SCALAI_ASSIGN_OR_RETURN(control::RunReport report, simulate(scenario, strategy, options));
  const std::optional<report::Moves> moves = report::moves_to_play(report);
  if (!moves) return report;
  Options ours = options;  // SimGrid runs once in a process, and the solvers agree
  ours.network = sim::BackendKind::kMaxMin;
  for (const double by_s : moves->by_s) {
    SCALAI_ASSIGN_OR_RETURN(control::RunReport once_more,
                            simulate(moved(scenario, moves->from_s, by_s), strategy, ours));
    report.moved.push_back(std::move(once_more.jobs));
  }
  return report;
}

int simulate_one(const Arguments& arguments, const RunOptions& common) {
  Options options{common};
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
                 [&](const scenario::Strategy& chosen) { return simulate_moments(*scenario, chosen, options); });
}

}  // namespace
}  // namespace scalai::apps

int main(int argc, char** argv) {
  const scalai::Program program{.name = "scalai-sim",
                                .summary = "Runs a scenario in virtual time on a modelled cluster.",
                                .commands = {scalai::apps::sim_command(scalai::apps::simulate_one)},
                                .single = true};
  return scalai::run_program(program, argc, argv);
}
