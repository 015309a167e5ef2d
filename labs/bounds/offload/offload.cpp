#include "labs/bounds/offload/offload.h"

#include <fmt/format.h>

#include <algorithm>

#include "labs/bounds/offload/internal/step_graph.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::step::offload {
namespace {

constexpr int32_t kMoments = 64;

absl::Status check_modelled(const Workload& w) {
  SCALAI_RETURN_IF_ERROR(check_workload(w));
  if (w.model.heads == 0)
    return invalid("offloading is modelled layer by layer, and the layers of a convolutional model differ");
  if (w.training.schedule == Schedule::kTwoBW)
    return invalid("offloading is not modelled for 2bw, which keeps two versions of the parameters");
  if (w.training.offloaded_layers > 0 || w.training.offloaded_modules != 0)
    return invalid("activations are offloaded already; the bound counts all of them");
  return absl::OkStatus();
}

// As many micro-batches as the bound can take.
int counted_micro_batches(const Workload& w, int stage) {
  const int all = w.training.micro_batches(w.config.dp);
  const int32_t one = internal::step_graph(w, stage, 1).graph.operations();
  return std::clamp(kMostOperations / one, 1, all);
}

absl::StatusOr<OffloadedStep> step_of(const Workload& w, int stage, int64_t device_bytes) {
  OffloadedStep step = {.stage = stage, .micro_batches_counted = counted_micro_batches(w, stage)};
  const internal::StepGraph counted = internal::step_graph(w, stage, step.micro_batches_counted);
  step.state_bytes = counted.state_bytes;
  step.activation_bytes = counted.activation_bytes;
  step.needed_bytes = counted.graph.least_capacity();
  if (step.needed_bytes > device_bytes)
    return invalid(fmt::format("an operation of stage {} needs {} ({} B) on the GPU at once, more than {}", stage,
                               format_bytes(step.needed_bytes), step.needed_bytes, format_bytes(device_bytes)));
  const bounds::Machine machine = {.capacity = device_bytes, .repeated = true};
  SCALAI_ASSIGN_OR_RETURN(step.least, bounds::io_bound(counted.graph, machine, kMoments));
  const internal::StepGraph whole = internal::step_graph(w, stage, w.training.micro_batches(w.config.dp));
  SCALAI_ASSIGN_OR_RETURN(step.schedule,
                          bounds::replay_repeated(whole.graph, whole.order, device_bytes, whole.carried));
  SCALAI_CHECK(step.least.transfers <= step.schedule.sum(), "a bound above what a schedule does");
  return step;
}

}  // namespace

absl::StatusOr<std::vector<OffloadedStep>> offloaded_steps(const Workload& workload, int64_t device_bytes) {
  SCALAI_RETURN_IF_ERROR(check_modelled(workload));
  std::vector<OffloadedStep> steps;
  for (int stage = 0; stage < workload.config.pp; ++stage) {
    SCALAI_ASSIGN_OR_RETURN(OffloadedStep step, step_of(workload, stage, device_bytes));
    steps.push_back(step);
  }
  return steps;
}

}  // namespace scalai::step::offload
