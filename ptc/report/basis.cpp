#include "ptc/report/internal/basis.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/cost/step/calibration.h"
#include "ptc/run/scenario/strategy.h"

namespace scalai::report {
namespace {

using control::PhaseSeconds;
using Line = std::optional<Basis>;

struct Run {
  const control::RunReport& report;
  change::Costs costs, preset;  // as used, and without what the scenario says
  bool hangs = false;           // a failure of the scenario
  bool measured(double PhaseSeconds::*phase) const {
    const auto& executions = report.recorder.executions;
    return std::any_of(executions.begin(), executions.end(),
                       [&](const auto& one) { return one.measured.*phase != one.scenario.*phase; });
  }
};

std::string stack_text(const Run& run) { return fmt::format("stack {}", run.costs.stack->name); }

Basis detect(const Run& run) {
  const change::Stack& stack = *run.costs.stack;
  if ((run.hangs ? run.costs.hang_s : run.costs.detect_s) >= 0) return {"detect", "given", "costs", {}, {}, ""};
  const change::Published& published = run.hangs ? stack.hang : stack.detect;
  return {"detect", "assumed", stack_text(run), published.low, published.high, "s"};
}

Basis restart(const Run& run) {
  if (run.costs.restart_s >= 0) return {"restart", "given", "costs", {}, {}, ""};
  const change::Published& published = run.costs.stack->restart;
  return {"restart", "assumed", stack_text(run) + ", by ranks", published.low, published.high, "s"};
}

Basis resume(const Run& run) {
  if (run.costs.communicator_s >= 0) return {"resume", "given", "costs", {}, {}, ""};
  const change::Published& published = run.costs.stack->initialisation;
  const std::string from =
      stack_text(run) + ", by groups of ranks" + (run.costs.compile_s > 0 ? "; compile given" : "");
  return {"resume", "modelled", from, published.low, published.high, "times", run.costs.compile_s};
}

// Nine in ten of 204 executed changes (results/calibration/errors.csv), and all 24 published ones (results/tenplex).
constexpr double kCalibratedLow = 0.77, kCalibratedHigh = 1.63, kStagedLow = 0.40, kStagedHigh = 1.25;
constexpr const char* kCalibrated = "links of hosts as calibrated";
// Of systems that are not modelled, so no error of the run.
constexpr const char* kOthers = "times, others";

Basis transfer(const Run& run) {
  const std::vector<cluster::Host>& hosts = run.report.scenario->cluster.hosts;
  const bool emulated =
      std::all_of(hosts.begin(), hosts.end(), [](const auto& host) { return host.copy_bytes_per_s > 0; });
  if (emulated) return {"transfer", "modelled", kCalibrated, kCalibratedLow, kCalibratedHigh, "times"};
  if (run.costs.stores.serve > 0)
    return {"transfer", "modelled", "stores over links of the cluster", kStagedLow, kStagedHigh, "times"};
  constexpr const char* kLinks = "links of the cluster";
  const plan::MessageCosts &used = run.costs.messages, &preset = run.preset.messages;
  const bool known = std::all_of(hosts.begin(), hosts.end(), [](const auto& host) { return !host.gpu.name.empty(); });
  if (!known || preset.peer_s <= 0 || used.box_s != preset.box_s || used.peer_s != preset.peer_s)
    return {"transfer", "modelled", kLinks, {}, {}, ""};
  return {"transfer", "modelled", kLinks, change::kPublishedTransfers.low, change::kPublishedTransfers.high, kOthers};
}

Basis constant(const char* phase, double used, double preset, const char* from) {
  if (used != preset) return {phase, "given", "costs", {}, {}, ""};
  return {phase, "assumed", from, {}, {}, ""};
}

}  // namespace

step::StepAccuracy accuracy_of(const cluster::GpuKind& gpu, const scenario::JobSpec& job) {
  return step::step_accuracy(gpu, job.training.precision.math, job.shape.experts > 0, job.given);
}

namespace {

Basis step(const control::RunReport& report) {
  if (!report.recorder.trained.empty()) return {"step", "measured", "this run", {}, {}, ""};
  const scenario::Scenario& scenario = *report.scenario;
  const auto computed = [](const control::JobRecord& job) {
    return std::any_of(job.configurations.begin(), job.configurations.end(),
                       [](const auto& configuration) { return configuration.computed; });
  };
  Basis line{"step", "modelled", "", 1, 1, "times"};
  for (size_t j = 0; j < report.jobs.size(); ++j) {
    if (!computed(report.jobs[j])) continue;
    const scenario::JobSpec& job = scenario.jobs[j];
    for (const cluster::Host& host : scenario.cluster.hosts) {
      const auto accuracy = accuracy_of(host.gpu, job);
      const bool first = line.from.empty();
      line.low = first ? accuracy.low : std::min(*line.low, accuracy.low);
      line.high = first ? accuracy.high : std::max(*line.high, accuracy.high);
      if (first || !accuracy.calibrated) line.from = text_of(accuracy, host.gpu.name);
    }
  }
  return line.from.empty() ? Basis{"step", "given", "step_time", {}, {}, ""} : line;
}

Line line_of(const Run& run, const char* name, double PhaseSeconds::*phase) {
  const auto took = [&](const control::JobRecord& job) {
    return std::any_of(job.reconfigurations.begin(), job.reconfigurations.end(),
                       [&](const auto& change) { return change.phases.*phase > 0; });
  };
  if (std::none_of(run.report.jobs.begin(), run.report.jobs.end(), took)) return std::nullopt;
  if (run.measured(phase)) return Basis{name, "measured", "this run", {}, {}, ""};
  if (phase == &PhaseSeconds::detect) return detect(run);
  if (phase == &PhaseSeconds::restart) return restart(run);
  if (phase == &PhaseSeconds::resume) return resume(run);
  if (phase == &PhaseSeconds::plan) return constant(name, run.costs.plan_s, run.preset.plan_s, "a constant");
  if (phase == &PhaseSeconds::verify)
    return constant(name, run.costs.verify_bytes_per_s, run.preset.verify_bytes_per_s, "a constant rate");
  if (phase == &PhaseSeconds::prepare) return Basis{name, "given", "costs", {}, {}, ""};
  if (phase == &PhaseSeconds::transfer) {
    Basis line = transfer(run);
    if (const double resolution_s = run.report.resolution_s; resolution_s > 0)
      line.from += fmt::format(", ends within {:g} us together", resolution_s * 1e6);
    return line;
  }
  return Basis{name, "modelled", "end of the step under way", {}, {}, ""};
}

std::string range_text(const Basis& line) {
  if (!line.low) return "";
  if (line.unit == "s")
    return fmt::format("; published: {} to {}", format_seconds(*line.low), format_seconds(*line.high));
  const char* others = line.from.starts_with(kCalibrated) ? "measured"
                       : line.unit == kOthers             ? "published of other software"
                                                          : "published";
  return line.of == "step" ? "" : fmt::format("; {}: {:g} to {:g} times as long", others, *line.low, *line.high);
}

}  // namespace

std::vector<Basis> basis_of(const control::RunReport& report) {
  std::vector<Basis> all;
  if (report.jobs.empty()) return all;
  all.push_back(step(report));
  const auto used = scenario::find_strategy(report.strategy, report.scenario->costs);
  const auto preset = scenario::find_strategy(report.strategy, {});
  if (!used.ok() || !preset.ok()) return all;
  Run run{report, used->costs, preset->costs};
  for (const scenario::ScenarioEvent& event : report.scenario->events) {
    const auto* const fail = std::get_if<scenario::Fail>(&event.what);
    run.hangs = run.hangs || (fail != nullptr && fail->hangs);
  }
  const std::pair<const char*, double PhaseSeconds::*> phases[] = {
      {"detect", &PhaseSeconds::detect},   {"stop", &PhaseSeconds::stop},       {"plan", &PhaseSeconds::plan},
      {"restart", &PhaseSeconds::restart}, {"prepare", &PhaseSeconds::prepare}, {"transfer", &PhaseSeconds::transfer},
      {"verify", &PhaseSeconds::verify},   {"resume", &PhaseSeconds::resume}};
  for (const auto& [name, phase] : phases) {
    if (Line line = line_of(run, name, phase)) all.push_back(*std::move(line));
  }
  return all;
}

std::string basis_text(const std::vector<Basis>& all, const Screen& screen) {
  constexpr size_t kIndent = 20, kNarrowest = 32;
  const size_t columns = screen.columns == 0 ? 0 : std::max(kIndent + kNarrowest, screen.columns) - kIndent;
  std::string text;
  for (const Basis& line : all) {
    const std::vector<std::string> why = wrapped(line.from + range_text(line), columns);
    text += printable_text(fmt::format("{:<10}{:<10}", line.of, line.basis));
    text += fmt::format("{}\n", fmt::join(why, fmt::format("\n{:{}}", "", kIndent)));
  }
  return text.empty() ? "" : "\nwhat these times rest on:\n" + text;
}

}  // namespace scalai::report
