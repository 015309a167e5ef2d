#include "sim/jobs/planned/change_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/cost/step/devices.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/planner.h"
#include "ptc/state/collection/megatron.h"
#include "sim/jobs/planned/internal/abstract_change.h"
#include "sim/jobs/planned/internal/change_stages.h"

namespace scalai::jobs {
namespace {

using internal::AbstractChange;

absl::StatusOr<std::shared_ptr<const ChangeShape>> make_shape(const AbstractChange& change,
                                                              const ChangePlanner::Question& question,
                                                              const ChangeStrategy& strategy) {
  const Configuration& target = *question.to;
  const JobModel& model = *target.model;
  const bool from_storage = question.source == ChangePlanner::Source::kStorage;
  const std::vector<DeviceId> devices =
      step::devices_for(target.config, change.candidates(), change.cluster(), target.training.precision.math);
  SCALAI_ASSIGN_OR_RETURN(collection::Collection to,
                          collection::megatron_collection(model.model, model.recipe, target.config, devices));
  collection::Residency residency{.lost = change.lost_devices(), .extra = {}, .storage = from_storage};
  collection::Collection from = to;
  if (from_storage) {
    residency.lost.insert(devices.begin(), devices.end());
  } else {
    SCALAI_ASSIGN_OR_RETURN(
        from, collection::megatron_collection(model.model, model.recipe, question.from->config, change.from_devices()));
  }
  to.epoch = from.epoch + 1;
  plan::PlannerOptions options = strategy.planner;
  options.hub = change.hub();
  const plan::PlannerInput input{
      .from = from, .to = to, .cluster = change.cluster(), .residency = residency, .options = options};
  if (strategy.placement.places()) to.device_of_rank = plan::place(input, strategy.placement, devices);
  SCALAI_ASSIGN_OR_RETURN(const plan::Plan plan, plan::make_plan(input));
  if (!plan.feasible()) {
    return absl::FailedPreconditionError(
        fmt::format("no survivor of {} holds {} boxes of {}", from.name, plan.missing().size(), model.name));
  }
  auto shape = std::make_shared<ChangeShape>();
  shape->stages = internal::stages_of({.plan = plan,
                                       .from = from,
                                       .to = to,
                                       .change = change,
                                       .lost = residency.lost,
                                       .source = question.source,
                                       .strategy = strategy});
  for (const DeviceId device : to.device_of_rank) shape->place_of_rank.push_back(change.place_of(device));
  shape->bytes = plan.bytes();
  shape->rounds = plan.rounds();
  shape->digest = plan.digest();
  return shape;
}

ChangePlanner::Planned answer(std::shared_ptr<const ChangeShape> shape, const AbstractChange& change,
                              const cluster::Cluster& cluster) {
  ChangePlanner::Planned planned{.shape = std::move(shape), .hosts = change.hosts(), .device_of_rank = {}};
  planned.device_of_rank.reserve(planned.shape->place_of_rank.size());
  for (const Place& place : planned.shape->place_of_rank) {
    const HostId host = planned.hosts[static_cast<size_t>(place.host)];
    planned.device_of_rank.emplace_back(cluster.hosts[static_cast<size_t>(host.value)].first_device + place.gpu);
  }
  return planned;
}

// Of every part of a state that these coordinates tell apart, some rank survives.
bool covers(const HeldState& state, const std::vector<uint8_t>& alive, const collection::Mesh& mesh,
            const std::vector<std::string>& axes) {
  std::vector<uint8_t> held(1, 0);
  for (const std::string& axis : axes) held.resize(held.size() * static_cast<size_t>(mesh.axis_size(axis)), 0);
  for (size_t rank = 0; rank < state.devices.size(); ++rank) {
    if (alive[rank] == 0) continue;
    size_t part = 0;
    for (const std::string& axis : axes) {
      const LogicalRank id(static_cast<int64_t>(rank));
      part = part * static_cast<size_t>(mesh.axis_size(axis)) + static_cast<size_t>(mesh.coordinate(id, axis));
    }
    held[part] = 1;
  }
  return std::all_of(held.begin(), held.end(), [](uint8_t one) { return one != 0; });
}

}  // namespace

ChangePlanner::ChangePlanner(const cluster::Cluster& cluster, ChangeStrategy strategy)
    : cluster_(cluster), strategy_(std::move(strategy)) {}

absl::StatusOr<ChangePlanner::Planned> ChangePlanner::plan(const Question& question) {
  const AbstractChange change(cluster_, question, strategy_.planner.hub);
  const std::string key = change.key(question);
  auto known = shapes_.find(key);
  if (known != shapes_.end()) {
    ++hits_;
  } else {
    SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const ChangeShape> shape, make_shape(change, question, strategy_));
    known = shapes_.emplace(key, std::move(shape)).first;
    ++made_;
  }
  return answer(known->second, change, cluster_);
}

absl::StatusOr<ChangePlanner::Planned> ChangePlanner::plan_anew(const Question& question) const {
  const AbstractChange change(cluster_, question, strategy_.planner.hub);
  SCALAI_ASSIGN_OR_RETURN(std::shared_ptr<const ChangeShape> shape, make_shape(change, question, strategy_));
  return answer(std::move(shape), change, cluster_);
}

bool survives(const HeldState& state, const std::set<HostId>& lost, const cluster::Cluster& cluster) {
  std::vector<uint8_t> alive;
  for (const DeviceId device : state.devices) alive.push_back(lost.count(cluster.host_of(device)) == 0 ? 1 : 0);
  if (std::all_of(alive.begin(), alive.end(), [](uint8_t one) { return one != 0; })) return true;
  const collection::Mesh dense = collection::dense_mesh(state.config);
  std::vector<std::string> parts = {"tp", "pp"}, expert_parts = {"etp", "ep", "pp"};
  if (state.config.zero > 0) {
    parts.emplace_back("dp");
    expert_parts.emplace_back("edp");
  }
  if (!covers(state, alive, dense, parts)) return false;
  if (state.model->model.experts > 0 && !covers(state, alive, collection::expert_mesh(state.config), expert_parts))
    return false;
  // The job's own state (random numbers, step, data cursor) is on tp 0, cp 0 of the first stage of each replica.
  for (size_t rank = 0; rank < state.devices.size(); ++rank) {
    const LogicalRank id(static_cast<int64_t>(rank));
    const bool holds =
        dense.coordinate(id, "tp") == 0 && dense.coordinate(id, "cp") == 0 && dense.coordinate(id, "pp") == 0;
    if (holds && alive[rank] != 0) return true;
  }
  return false;
}

}  // namespace scalai::jobs
