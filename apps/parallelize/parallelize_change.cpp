#include "apps/parallelize/parallelize_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/cost/change/stages.h"
#include "ptc/cost/step/devices.h"
#include "ptc/cost/step/hardware.h"
#include "ptc/plan/placement.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::apps {

namespace {

using collection::ParallelConfig;

bool same_ranks(const ParallelConfig& a, const ParallelConfig& b) {
  return a.tp == b.tp && a.pp == b.pp && a.dp == b.dp && a.cp == b.cp && a.ep == b.ep && a.etp == b.etp &&
         a.order == b.order;
}

bool keeps_devices(const ParallelizeRequest& request, const ParallelConfig& config) {
  return request.from && request.from->can_stay && same_ranks(config, request.from->config);
}

bool same(const step::Group& a, const step::Group& b) {
  return a.ranks == b.ranks && a.per_host == b.per_host && a.hosts() == b.hosts() && a.fabric_share == b.fabric_share;
}

bool same(const std::vector<step::Hop>& a, const std::vector<step::Hop>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const step::Hop& one, const step::Hop& other) {
    return one.crosses_hosts == other.crosses_hosts && one.bytes_per_s == other.bytes_per_s;
  });
}

bool same(const step::Hardware& a, const step::Hardware& b) {
  return a.stages == b.stages && a.gpus_per_host == b.gpus_per_host && a.link_bytes_per_s == b.link_bytes_per_s &&
         a.nic_bytes_per_s == b.nic_bytes_per_s && a.host_nic_bytes_per_s == b.host_nic_bytes_per_s &&
         a.price_per_gpu_hour == b.price_per_gpu_hour && same(a.tp, b.tp) && same(a.cp, b.cp) && same(a.dp, b.dp) &&
         same(a.ep, b.ep) && same(a.etp, b.etp) && same(a.edp, b.edp) &&
         a.pipeline_crosses_hosts == b.pipeline_crosses_hosts && same(a.hops, b.hops);
}

}  // namespace

std::vector<DeviceId> devices_of(const ParallelizeRequest& request, const ParallelConfig& config) {
  if (keeps_devices(request, config)) return request.from->devices;
  return step::devices_for(config, request.devices, request.cluster, request.space.base.precision.math);
}

step::Hardware hardware_on(const ParallelizeRequest& request, const ParallelConfig& config,
                           const std::vector<DeviceId>& devices) {
  return step::hardware_of(request.cluster, config, devices, {}, request.space.base.precision.math);
}

absl::StatusOr<ChangePlanner> ChangePlanner::create(const ParallelizeRequest& request) {
  SCALAI_CHECK(request.from.has_value(), "nothing to change from");
  auto strategy = scenario::find_strategy("reshard", {});
  SCALAI_CHECK(strategy.ok(), message_of(strategy.status()));
  SCALAI_ASSIGN_OR_RETURN(
      collection::Collection from,
      collection::megatron_collection(request.model, request.recipe, request.from->config, request.from->devices));
  return ChangePlanner(request, std::move(from), *std::move(strategy));
}

absl::StatusOr<step::Change> ChangePlanner::to(const collection::ParallelConfig& config) const {
  const OldState& old = *request_.from;
  if (old.can_stay && config == old.config) return step::Change{};
  const std::vector<DeviceId> devices = devices_of(request_, config);
  SCALAI_ASSIGN_OR_RETURN(collection::Collection to,
                          collection::megatron_collection(request_.model, request_.recipe, config, devices));
  to.epoch = from_.epoch + 1;
  const plan::PlannerInput input{from_, to, request_.cluster, old.residency, strategy_.planner};
  if (config.world() <= kMostPlaced && !keeps_devices(request_, config)) {
    const std::vector<DeviceId> placed = plan::place(input, strategy_.placement, request_.devices);
    if (same(hardware_on(request_, config, placed), hardware_on(request_, config, devices))) to.device_of_rank = placed;
  }
  SCALAI_ASSIGN_OR_RETURN(const plan::Plan plan, plan::make_plan(input));
  if (!plan.feasible()) {
    const plan::Missing& first = plan.missing().front();
    return failed(fmt::format(
        "no living device holds tensor \"{}\" {}, nor {} more boxes; with --storage they come from a checkpoint",
        plan.tensors()[static_cast<size_t>(first.tensor.value)].name, first.box.str(), plan.missing().size() - 1));
  }
  const change::Costs& costs = strategy_.costs;
  step::Change change;
  change.bytes_between_hosts = plan.bytes().cross_host;
  change.bytes_moved = plan.bytes().moved();
  change.reconfiguration_s =
      (old.residency.lost.empty() ? 0 : change::detect_s(costs)) +
      change::estimate({.plan = plan,
                        .cluster = request_.cluster,
                        .costs = costs,
                        .groups = change::groups_of(to, request_.cluster, &from_, old.residency.lost)})
          .total();
  return change;
}

}  // namespace scalai::apps
