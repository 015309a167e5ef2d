#include "labs/bounds/commands/offload_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "labs/bounds/offload/offload.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using step::offload::OffloadedStep;

bool alike(const OffloadedStep& a, const OffloadedStep& b) {
  return a.state_bytes == b.state_bytes && a.activation_bytes == b.activation_bytes &&
         a.least.transfers == b.least.transfers && a.schedule.loads == b.schedule.loads &&
         a.schedule.stores == b.schedule.stores;
}

std::string least_text(const OffloadedStep& step) {
  if (step.schedule.sum() == 0) return "0 B (all fits)";
  return step.least.transfers == 0 ? "0 B (says nothing)"
                                   : fmt::format("{} ({})", format_bytes(step.least.transfers), step.least.by);
}

// Stages that agree in everything are one row.
std::string offload_text(const std::vector<OffloadedStep>& steps, int64_t device_bytes, const std::string& config,
                         int micro_batches, const Screen& screen) {
  Table table({"stage", "state>", "activations>", "any order at least>", "this schedule>", "to host>", "ratio>"});
  for (size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    const OffloadedStep& step = steps[begin];
    while (end < steps.size() && alike(steps[end], step)) ++end;
    const auto sum = static_cast<double>(step.schedule.sum());
    table.row(
        {end - begin == 1 ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, end - 1),
         format_bytes(step.state_bytes), format_bytes(step.activation_bytes), least_text(step),
         format_bytes(step.schedule.sum()), format_bytes(step.schedule.stores),
         step.least.transfers == 0 ? "-" : fmt::format("{:.2f}", sum / static_cast<double>(step.least.transfers))});
  }
  const int counted = std::min_element(steps.begin(), steps.end(), [](const auto& a, const auto& b) {
                        return a.micro_batches_counted < b.micro_batches_counted;
                      })->micro_batches_counted;
  std::string text = fmt::format(
      "{}: bytes between a GPU and its host in a step, if {} of state and activations stay on the GPU\n{}\n", config,
      format_bytes(device_bytes), table.text(screen));
  text +=
      "any order with all operations on the GPU, the optimizer too; activations of one micro-batch; buffers and "
      "temporaries "
      "need further memory; step times do not include host traffic\n";
  if (counted < micro_batches)
    text += fmt::format("the bound counts at least {} of {} micro-batches\n", counted, micro_batches);
  return text;
}

// A row a stage, bytes without units.
Table offload_table(const std::vector<OffloadedStep>& steps) {
  Table table({"stage", "state_bytes", "activation_bytes", "needed_bytes", "least_bytes", "by", "compulsory_bytes",
               "spectral_bytes", "wavefront_bytes", "schedule_loads", "schedule_stores", "micro_batches_counted"});
  for (const OffloadedStep& step : steps) {
    table.row({fmt::format("{}", step.stage), fmt::format("{}", step.state_bytes),
               fmt::format("{}", step.activation_bytes), fmt::format("{}", step.needed_bytes),
               fmt::format("{}", step.least.transfers), std::string(step.least.by),
               fmt::format("{}", step.least.compulsory), fmt::format("{}", step.least.spectral),
               fmt::format("{}", step.least.wavefront), fmt::format("{}", step.schedule.loads),
               fmt::format("{}", step.schedule.stores), fmt::format("{}", step.micro_batches_counted)});
  }
  return table;
}

class OffloadedTraffic final : public HostTraffic {
 public:
  OffloadedTraffic(const step::Workload& workload, int64_t device_bytes, std::vector<OffloadedStep> steps)
      : config_(fmt::format("{}, micro-batches of {}, recompute {}", canonical(workload.config),
                            workload.training.micro_batch, name_of(workload.training.recompute))),
        micro_batches_(workload.training.micro_batches(workload.config.dp)),
        device_bytes_(device_bytes),
        steps_(std::move(steps)) {}

  std::string text(const Screen& screen) const override {
    return offload_text(steps_, device_bytes_, config_, micro_batches_, screen);
  }
  std::string csv() const override { return offload_table(steps_).csv(); }
  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json stages = nlohmann::ordered_json::array();
    for (const OffloadedStep& step : steps_) {
      stages.push_back({{"stage", step.stage},
                        {"state_bytes", step.state_bytes},
                        {"activation_bytes", step.activation_bytes},
                        {"needed_bytes", step.needed_bytes},
                        {"least_bytes", step.least.transfers},
                        {"by", step.least.by},
                        {"schedule", {{"loads", step.schedule.loads}, {"stores", step.schedule.stores}}},
                        {"micro_batches_counted", step.micro_batches_counted}});
    }
    return {{"device_bytes", device_bytes_}, {"stages", stages}};
  }

 private:
  const std::string config_;
  const int micro_batches_;
  const int64_t device_bytes_;
  const std::vector<OffloadedStep> steps_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const HostTraffic>> find_host_traffic(const step::Workload& workload,
                                                                     int64_t device_bytes) {
  SCALAI_ASSIGN_OR_RETURN(std::vector<OffloadedStep> steps, step::offload::offloaded_steps(workload, device_bytes));
  return std::make_shared<OffloadedTraffic>(workload, device_bytes, std::move(steps));
}

}  // namespace scalai::apps
