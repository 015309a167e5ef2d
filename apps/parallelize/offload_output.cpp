#include "apps/parallelize/offload_output.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using parallel::OffloadedStep;

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

}  // namespace

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

}  // namespace scalai::apps
