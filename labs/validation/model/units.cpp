#include "labs/validation/model/units.h"

#include <algorithm>
#include <functional>

#include "ptc/base/status.h"
#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::step::validation {
namespace {

double tokens_of(const TrainingRun& run) {
  return static_cast<double>(run.training.global_batch) * run.training.sequence;
}

double model_flops_of(const TrainingRun& run) {
  return model_flops(run.model, run.training.global_batch, run.training.sequence, run.training.mtp);
}

double causal_flops(const TrainingRun& run) {
  const double width = static_cast<double>(run.model.heads) * static_cast<double>(run.model.head_dim);
  return model_flops_of(run) - 6.0 * run.model.layers * width * run.training.sequence * tokens_of(run);
}

double six_flops(const TrainingRun& run) {
  return 6.0 * static_cast<double>(run.model.active_parameters()) * tokens_of(run);
}

double hardware_flops_of(const TrainingRun& run) { return hardware_flops(run.workload()); }

double peak_of(const TrainingRun& run) {
  const double peak = run.peak_flops > 0 ? run.peak_flops : peak_flops(run.host.gpu, run.training.precision.math);
  return peak * run.gpus();
}

// A unit is what a step of one second reads in it; lengths grow with the step, rates with its inverse.
struct Unit {
  const char* name;
  bool rate;
  std::function<double(const TrainingRun&)> of_one_second;
};

const std::vector<Unit>& units() {
  constexpr double kTera = 1e12, kPeta = 1e15;
  static const std::vector<Unit> table = {
      {"s", false, [](const TrainingRun&) { return 1.0; }},
      {"days", false, [](const TrainingRun& run) { return run.tokens / tokens_of(run) / 86400; }},
      {"gpu_hours", false, [](const TrainingRun& run) { return run.tokens / tokens_of(run) * run.gpus() / 3600; }},
      {"tokens_s_gpu", true, [](const TrainingRun& run) { return tokens_of(run) / run.gpus(); }},
      {"samples_s", true, [](const TrainingRun& run) { return 1.0 * run.training.global_batch; }},
      {"tflops_model", true, [](const TrainingRun& run) { return model_flops_of(run) / kTera / run.gpus(); }},
      {"tflops_hardware", true, [](const TrainingRun& run) { return hardware_flops_of(run) / kTera / run.gpus(); }},
      {"tflops_causal", true, [](const TrainingRun& run) { return causal_flops(run) / kTera / run.gpus(); }},
      {"tflops_6pt", true, [](const TrainingRun& run) { return six_flops(run) / kTera / run.gpus(); }},
      {"pflops_model", true, [](const TrainingRun& run) { return model_flops_of(run) / kPeta; }},
      {"pflops_hardware", true, [](const TrainingRun& run) { return hardware_flops_of(run) / kPeta; }},
      {"mfu_pct", true, [](const TrainingRun& run) { return 100 * model_flops_of(run) / peak_of(run); }},
      {"mfu_causal_pct", true, [](const TrainingRun& run) { return 100 * causal_flops(run) / peak_of(run); }},
      {"hfu_pct", true, [](const TrainingRun& run) { return 100 * hardware_flops_of(run) / peak_of(run); }},
  };
  return table;
}

const Unit& unit_named(const std::string& name) {
  const auto found = std::find_if(units().begin(), units().end(), [&](const Unit& unit) { return name == unit.name; });
  SCALAI_CHECK(found != units().end(), name);
  return *found;
}

}  // namespace

std::vector<std::string> step_units() {
  std::vector<std::string> names;
  for (const Unit& unit : units()) names.emplace_back(unit.name);
  return names;
}

double step_seconds(double value, const std::string& name, const TrainingRun& run) {
  const Unit& unit = unit_named(name);
  const double one = unit.of_one_second(run);
  return unit.rate ? one / value : value / one;
}

double in_unit(double step_s, const std::string& name, const TrainingRun& run) {
  const Unit& unit = unit_named(name);
  return unit.rate ? unit.of_one_second(run) / step_s : unit.of_one_second(run) * step_s;
}

double model_peak_seconds(const TrainingRun& run) { return model_flops_of(run) / peak_of(run); }

double hardware_peak_seconds(const TrainingRun& run) { return hardware_flops_of(run) / peak_of(run); }

}  // namespace scalai::step::validation
