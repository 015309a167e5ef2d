#include "sim/jobs/planned/internal/change_stages.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ptc/cost/change/bulk_flows.h"
#include "ptc/cost/change/stages.h"

namespace scalai::jobs::internal {
namespace {

using plan::Location;

Place place_of(const AbstractChange& change, const Location& location) {
  switch (location.kind) {
    case Location::Kind::kDevice: return change.place_of(DeviceId(location.index));
    case Location::Kind::kHostMemory: return {.host = location.index, .gpu = -1};
    case Location::Kind::kStorage: break;
  }
  return {};
}

// In order of their ends; flows of nothing end at once.
std::shared_ptr<const FlowGroup> group_of(const AbstractChange& change,
                                          const std::vector<change::FlowRequest>& requests) {
  auto group = std::make_shared<FlowGroup>();
  for (const change::FlowRequest& request : requests) {
    if (request.bytes == 0) continue;
    group->flows.push_back({.src = place_of(change, request.src),
                            .dst = place_of(change, request.dst),
                            .bytes = request.bytes,
                            .src_process = request.src_process,
                            .dst_process = request.dst_process,
                            .lane = request.lane});
  }
  std::stable_sort(group->flows.begin(), group->flows.end(), [](const FlowGroup::Flow& a, const FlowGroup::Flow& b) {
    return std::tie(a.src, a.dst, a.src_process, a.dst_process, a.lane) <
           std::tie(b.src, b.dst, b.src_process, b.dst_process, b.lane);
  });
  return group->flows.empty() ? nullptr : group;
}

void add(std::vector<ChangeStage>& stages, double wait_s, std::shared_ptr<const FlowGroup> flows, bool is_transfer) {
  const bool joins = !stages.empty() && stages.back().flows == nullptr && stages.back().is_transfer == is_transfer;
  if (joins) {
    stages.back().wait_s += wait_s;
    stages.back().flows = std::move(flows);
  } else if (wait_s > 0 || flows != nullptr) {
    stages.push_back({.wait_s = wait_s, .flows = std::move(flows), .is_transfer = is_transfer});
  }
}

}  // namespace

std::vector<ChangeStage> stages_of(const StageInput& input) {
  const ChangeStrategy& strategy = input.strategy;
  const cluster::Cluster& cluster = input.change.cluster();
  const HostId hub = input.change.hub();
  const bool staged = !strategy.planner.in_place;
  std::vector<change::BulkFlow> stage, load;
  if (staged) load = change::load_flows(input.to, cluster, hub);
  if (staged && input.source == ChangePlanner::Source::kDevices) {
    const bool every_replica = strategy.planner.sources != plan::SourceRule::kFirstReplica;
    stage = change::stage_flows(input.from, input.lost, cluster, hub, every_replica);
  }
  const change::Change change{.plan = input.plan,
                              .cluster = cluster,
                              .costs = strategy.costs,
                              .groups = change::groups_of(input.to, cluster, &input.from, input.lost),
                              .stage = stage,
                              .load = load,
                              .upload = staged,
                              .from = &input.from,
                              .to = &input.to,
                              .hub = hub,
                              .restore = input.source == ChangePlanner::Source::kHostMemory};
  std::vector<ChangeStage> stages;
  for (const change::Stage& one : change::stages_of(change)) {
    const bool is_transfer = one.phase == &change::PhaseSeconds::transfer;
    add(stages, one.wait_s, group_of(input.change, one.flows), is_transfer);
  }
  return stages;
}

}  // namespace scalai::jobs::internal
