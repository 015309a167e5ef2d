#include "ptc/cost/step/two_bw.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/cost/step/internal/search_space.h"

namespace scalai::step {
namespace {

constexpr double kRecomputed = 4.0 / 3;  // forward once more; backward takes twice as long as forward
constexpr double kRingPasses = 2;        // reduce-scatter, all-gather
constexpr double kVersions = 2;

// A rate of 0 is unlimited.
double seconds(double bytes, double bytes_per_s) { return bytes_per_s > 0 ? bytes / bytes_per_s : 0; }

double bandwidth(const Hardware& hardware, bool in_host) {
  return in_host ? hardware.link_bytes_per_s : hardware.nic_bytes_per_s * hardware.dp.fabric_share;
}

double boundary_bytes(const ModelShape& model, const Training& training) {
  return static_cast<double>(training.micro_batch) * training.sequence * static_cast<double>(model.hidden) *
         training.precision.activation_bytes;
}

double memory_of(const ModelShape& model, const Workload& workload, bool recompute) {
  const Precision& precision = workload.training.precision;
  const double weights = static_cast<double>(model.parameters()) *
                         (precision.param_bytes + precision.gradient_bytes + precision.optimizer_bytes);
  const double depth = workload.config.pp;
  const double all = model.layers * layer_activation_bytes(workload);
  const double inputs = depth * boundary_bytes(model, workload.training);
  return kVersions * weights / depth + (recompute ? all / depth : all) + inputs;
}

}  // namespace

TwoBwPlan two_bw_plan(const ModelShape& model, const SearchSpace& space, int width, int depth, int micro_batch,
                      bool recompute) {
  Training training = space.base;
  training.micro_batch = micro_batch;
  training.schedule = Schedule::kTwoBW;
  training.recompute = Recompute::kNone;
  const collection::ParallelConfig config{.pp = depth, .dp = width};
  const Workload workload{model, config, training};
  const Hardware hardware = uniform_hardware(space.host, config);
  const StepParts parts = step_parts(workload, hardware);
  const double across = bandwidth(hardware, width <= space.host.gpus);
  const double along = bandwidth(hardware, width * depth <= space.host.gpus);
  const double m = training.micro_batches(width);
  TwoBwPlan plan{.width = width, .depth = depth, .micro_batch = micro_batch, .recompute = recompute};
  for (int stage = 0; stage < depth; ++stage) {
    const StageWork& work = parts.stages[static_cast<size_t>(stage)];
    const double compute_s =
        (work.forward.front().compute_s() + work.backward.front().compute_s()) * (recompute ? kRecomputed : 1);
    const int ends = (stage > 0 ? 1 : 0) + (stage < depth - 1 ? 1 : 0);  // A_in and A_out that travel
    const double messages_s = seconds(2.0 * ends * boundary_bytes(model, training), along);
    const StageElements elements = stage_elements(workload, stage);
    const double gradients = (elements.dense + elements.experts) * training.precision.gradient_bytes;
    const double gradients_s = seconds(kRingPasses * (width - 1) / width * gradients, across) / m;
    const double micro_batch_s = std::max(compute_s + messages_s, gradients_s);
    if (micro_batch_s <= plan.micro_batch_s) continue;
    plan.compute_s = compute_s;
    plan.messages_s = messages_s;
    plan.gradients_s = gradients_s;
    plan.micro_batch_s = micro_batch_s;
  }
  plan.step_s = m * plan.micro_batch_s;
  plan.memory_bytes = memory_of(model, workload, recompute);
  return plan;
}

absl::StatusOr<std::vector<TwoBwPlan>> two_bw_plans(const ModelShape& model, const SearchSpace& space) {
  if (model.heads == 0) return invalid(fmt::format("{} is no transformer; PipeDream-2BW plans those", model.name));
  SearchSpace two_axes = space;
  two_axes.pins = {};
  for (std::optional<int>* axis :
       {&two_axes.pins.tp, &two_axes.pins.cp, &two_axes.pins.ep, &two_axes.pins.etp, &two_axes.pins.vpp})
    *axis = 1;
  two_axes.pins.zero = 0;
  two_axes.recomputes = {Recompute::kNone, Recompute::kFull};
  two_axes.base.schedule = Schedule::kTwoBW;
  SCALAI_RETURN_IF_ERROR(check_space(model, two_axes));
  std::vector<TwoBwPlan> plans;
  TwoBwPlan nearest;
  internal::for_each_point(model, two_axes, [&](const internal::Point& p) {
    const bool recompute = p.recompute == Recompute::kFull;
    const TwoBwPlan plan = two_bw_plan(model, two_axes, p.dp, p.pp, p.micro_batch, recompute);
    if (nearest.memory_bytes == 0 || plan.memory_bytes < nearest.memory_bytes) nearest = plan;
    if (plan.memory_bytes <= static_cast<double>(internal::memory_limit(two_axes))) plans.push_back(plan);
  });
  if (nearest.memory_bytes == 0) return invalid(internal::why_empty(model, two_axes));
  if (plans.empty())
    return invalid(fmt::format("no width and depth fit {}: the nearest, width {} and depth {}, needs {}",
                               format_bytes(internal::memory_limit(two_axes)), nearest.width, nearest.depth,
                               format_bytes(static_cast<int64_t>(nearest.memory_bytes))));
  const auto key = [](const TwoBwPlan& p) {
    return std::make_tuple(p.step_s, p.depth, -p.micro_batch, p.recompute, p.width);
  };
  std::sort(plans.begin(), plans.end(), [&](const TwoBwPlan& a, const TwoBwPlan& b) { return key(a) < key(b); });
  if (std::ssize(plans) > space.keep) plans.resize(static_cast<size_t>(space.keep));
  return plans;
}

}  // namespace scalai::step
