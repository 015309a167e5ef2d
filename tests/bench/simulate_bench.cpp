// Simulating a change of a big job: an hour of 405B parameters on 4,096 GPUs with checkpoints every 50 steps and one
// change after 10 minutes, from the text of the scenario to the end of the run. Yardstick: the same hour without the
// change, measured in the same run: `x_quiet`. `report_s` is the time to write the report beside it. Processor seconds,
// medians of 3 runs.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <string>

#include "ptc/base/status.h"
#include "ptc/report/report.h"
#include "ptc/run/control/run.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/run/scenario/strategy.h"
#include "sim/sim_runtime.h"
#include "sim/simgrid_backend.h"

namespace scalai::sim {
namespace {

struct Shape {
  std::string from = "tp8,pp16,dp32,zero1";
  std::string to;
  int gpus_before = 4096, gpus_after = 0;
  std::string strategy = "reshard";
  std::string fails;             // "devices: 26"; else a request for gpus_after
  std::string redundancy;        // of the job
  double resolution_s = 100e-6;  // as `scalai sim` has it for so many devices
};

std::string scenario_text(const Shape& shape, bool changes) {
  const std::string what = shape.fails.empty() ? fmt::format("resize {{ gpus: {} }}", shape.gpus_after)
                                               : fmt::format("fail {{ {} }}", shape.fails);
  return fmt::format(
      R"(schema_version: 1
name: "change"
until: "1h"
cluster {{ hosts {{ count: 512 kind: "dgx-h100" }} storage {{ read: "1TB/s" write: "1TB/s" }} }}
jobs {{
  name: "a" model: "llama3-405b" precision: "bf16" global_batch: 1536 sequence: 8192 gpus: {}
  configs {{ layout: "{}" step_time: "10s" }}
  configs {{ layout: "{}" step_time: "12s" }}
  checkpoint {{ every_steps: 50 }} {}
}}
{})",
      shape.gpus_before, shape.from, shape.to, shape.redundancy,
      changes ? fmt::format("events {{ at: \"10min\" {} }}\n", what) : "");
}

// Of this process: it has one thread, and others use the machine, too.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Run {
  double seconds = 0, report_s = 0;
  size_t transfers = 0;
};

Run run_of(const Shape& shape, bool changes, const std::string& folder) {
  const double start_s = processor_seconds();
  const auto no_files = [](const std::string& path) -> absl::StatusOr<std::string> { return missing(path); };
  const auto scenario = scenario::parse_scenario(scenario_text(shape, changes), "change.textproto", no_files);
  SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
  const auto strategy = scenario::find_strategy(shape.strategy, scenario->costs);
  SCALAI_CHECK(strategy.ok(), message_of(strategy.status()));
  const change::Platform platform(scenario->cluster, change::LinkRates::kReached, strategy->costs.stores);
  absl::StatusOr<control::RunReport> report = absl::InternalError("did not run");
  const auto simulate = [&](change::NetworkBackend& backend) {
    control::Recorder recorder;
    SimRuntime runtime(scenario->cluster, platform, backend, recorder);
    report = control::run(*scenario, *strategy, runtime);
    runtime.close();
    if (report.ok()) report->recorder = std::move(recorder);
  };
  const absl::Status status = with_backend(BackendKind::kMaxMin, platform.spec(), simulate, shape.resolution_s);
  SCALAI_CHECK(status.ok() && report.ok(), message_of(status) + message_of(report.status()));
  Run run{.seconds = processor_seconds() - start_s, .transfers = report->recorder.transfers.size()};
  const size_t plans = report->plans.size();
  SCALAI_CHECK(plans == (changes ? 1U : 0U), fmt::format("{} plans", plans));
  report->runtime = "sim";
  const double written_s = processor_seconds();
  if (!folder.empty()) {
    const absl::Status done = report::write_report(*report, {}, folder);
    SCALAI_CHECK(done.ok(), message_of(done));
  }
  run.report_s = processor_seconds() - written_s;
  return run;
}

void change(benchmark::State& state, const Shape& shape) {
  const std::string folder = std::filesystem::temp_directory_path() / fmt::format("simulate-bench-{}", getpid());
  const Run quiet = run_of(shape, /*changes=*/false, "");
  for (auto _ : state) {
    const Run run = run_of(shape, /*changes=*/true, folder);
    state.SetIterationTime(run.seconds);
    state.counters["report_s"] = run.report_s;
    state.counters["transfers"] = static_cast<double>(run.transfers);
    state.counters["x_quiet"] = run.seconds / quiet.seconds;
  }
  std::filesystem::remove_all(folder);
}

#define SCALAI_CHANGE(name, ...)                     \
  BENCHMARK_CAPTURE(change, name, Shape __VA_ARGS__) \
      ->Unit(benchmark::kSecond)                     \
      ->UseManualTime()                              \
      ->Iterations(1)                                \
      ->Repetitions(3)                               \
      ->ReportAggregatesOnly(true)

SCALAI_CHANGE(fewer_replicas, {.to = "tp8,pp16,dp24,zero1", .gpus_after = 3072});
SCALAI_CHANGE(more_replicas,
              {.from = "tp8,pp16,dp24,zero1", .to = "tp8,pp16,dp32,zero1", .gpus_before = 3072, .gpus_after = 4096});
SCALAI_CHANGE(other_pipeline, {.to = "tp8,pp14,dp24,zero1", .gpus_after = 2688});
SCALAI_CHANGE(other_tensor_cut, {.to = "tp4,pp16,dp48,zero1", .gpus_after = 3072});
SCALAI_CHANGE(interleaved_pipeline,
              {.from = "tp8,pp16,dp32,vpp2,zero1", .to = "tp8,pp14,dp24,zero1", .gpus_after = 2688});
SCALAI_CHANGE(failed_device, {.to = "tp8,pp16,dp24,zero1", .fails = "devices: 26"});
SCALAI_CHANGE(redundant_copies, {.to = "tp8,pp16,dp24,zero1",
                                 .fails = "hosts: 3",
                                 .redundancy = "redundancy { copies: 1 every_steps: 10 }"});
SCALAI_CHANGE(tenplex_fewer_replicas, {.to = "tp8,pp16,dp24,zero1", .gpus_after = 3072, .strategy = "tenplex"});
SCALAI_CHANGE(tenplex_other_pipeline, {.to = "tp8,pp14,dp24,zero1", .gpus_after = 2688, .strategy = "tenplex"});
SCALAI_CHANGE(full_migration, {.to = "tp8,pp14,dp24,zero1", .gpus_after = 2688, .strategy = "full-migration"});
SCALAI_CHANGE(from_checkpoint, {.to = "tp8,pp14,dp32,zero1", .strategy = "checkpoint-restart", .fails = "hosts: 3"});

}  // namespace
}  // namespace scalai::sim

BENCHMARK_MAIN();
