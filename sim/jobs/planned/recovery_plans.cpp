#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/base/status.h"
#include "ptc/cost/step/devices.h"
#include "sim/jobs/planned/change_plan.h"
#include "sim/jobs/planned/internal/expected.h"
#include "sim/jobs/planned/planned.h"

namespace scalai::jobs {
namespace {

class PlannedRecovery final : public RecoveryPlans {
 public:
  PlannedRecovery(const Configurations& configurations, const Fabric& fabric, const ChangeStrategy& strategy,
                  const policy::Job& job)
      : configurations_(configurations),
        cluster_(configurations.cluster()),
        fabric_(fabric),
        job_(job),
        planner_(cluster_, strategy) {}

  absl::StatusOr<RecoveryCost> cost(const RecoveryQuestion& question) override {
    SCALAI_ASSIGN_OR_RETURN(const std::vector<HostId> after, hosts_after(question));
    SCALAI_ASSIGN_OR_RETURN(const Configuration* to, configuration(after));
    const change::Costs& costs = planner_.strategy().costs;
    const bool start = question.hosts_before == 0;
    if (start && !question.from_storage)
      return RecoveryCost{.seconds = change::start_seconds(costs, change::groups_of(to->gpus(), cluster_))};
    HeldState held;
    if (!start) {
      SCALAI_ASSIGN_OR_RETURN(held, held_by(question.hosts_before));
    }
    const std::set<HostId> lost = hosts_lost(question);
    const bool alive = survives(question);
    const auto source = alive ? ChangePlanner::Source::kDevices : ChangePlanner::Source::kStorage;
    SCALAI_ASSIGN_OR_RETURN(
        const ChangePlanner::Planned planned,
        planner_.plan(
            {.from = start ? nullptr : &held, .lost = lost, .to = to, .devices = devices_of(after), .source = source}));
    ChangeShape moving = *planned.shape;
    while (!moving.stages.empty() && moving.stages.back().flows == nullptr) moving.stages.pop_back();
    return RecoveryCost{.seconds = internal::alone_s(*planned.shape, planned.hosts, fabric_),
                        .moving_s = internal::alone_s(moving, planned.hosts, fabric_),
                        .from_survivors = alive,
                        .bytes = planned.shape->bytes};
  }

  bool survives(const RecoveryQuestion& question) const override {
    if (question.from_storage || planner_.strategy().from_checkpoint) return false;
    const absl::StatusOr<HeldState> held = held_by(question.hosts_before);
    return held.ok() && jobs::survives(*held, hosts_lost(question), cluster_);
  }

  double step_s(int hosts) const override {
    if (hosts < 1 || hosts > static_cast<int>(cluster_.hosts.size())) return 0;
    const absl::StatusOr<const Configuration*> found = configuration(first_hosts(hosts));
    return found.ok() ? (*found)->step_s : 0;
  }

 private:
  static std::vector<HostId> first_hosts(int count) {
    std::vector<HostId> hosts;
    for (int h = 0; h < count; ++h) hosts.emplace_back(h);
    return hosts;
  }

  static std::set<HostId> hosts_lost(const RecoveryQuestion& question) {
    std::set<HostId> lost;
    for (const int place : question.lost) lost.insert(HostId(place));
    return lost;
  }

  absl::StatusOr<HeldState> held_by(int hosts) const {
    if (hosts < 1 || hosts > static_cast<int>(cluster_.hosts.size()))
      return invalid(fmt::format("{} hosts of {} hold nothing", hosts, cluster_.hosts.size()));
    SCALAI_ASSIGN_OR_RETURN(const Configuration* from, configuration(first_hosts(hosts)));
    return HeldState{.model = from->model,
                     .config = from->config,
                     .devices = step::devices_for(from->config, devices_of(first_hosts(hosts)), cluster_,
                                                  from->training.precision.math)};
  }

  absl::StatusOr<std::vector<HostId>> hosts_after(const RecoveryQuestion& question) const {
    std::vector<HostId> hosts;
    for (int h = 0; h < question.hosts_before; ++h) {
      if (std::find(question.lost.begin(), question.lost.end(), h) == question.lost.end()) hosts.emplace_back(h);
    }
    for (const int place : question.lost) {
      if (place < 0 || place >= question.hosts_before)
        return invalid(fmt::format("host {} of {} is lost", place, question.hosts_before));
    }
    const auto wanted = static_cast<size_t>(std::max(0, question.hosts_after));
    for (int h = question.hosts_before; hosts.size() < wanted; ++h) hosts.emplace_back(h);
    hosts.resize(wanted);
    if (hosts.empty() || hosts.back().value >= static_cast<int>(cluster_.hosts.size())) {
      return invalid(fmt::format("from {} hosts, {} of them lost, to {}: the cluster has {}", question.hosts_before,
                                 question.lost.size(), question.hosts_after, cluster_.hosts.size()));
    }
    return hosts;
  }

  std::vector<DeviceId> devices_of(const std::vector<HostId>& hosts) const {
    std::vector<DeviceId> devices;
    for (const HostId host : hosts) {
      for (const DeviceId device : cluster_.devices_of(host)) devices.push_back(device);
    }
    return devices;
  }

  absl::StatusOr<const Configuration*> configuration(const std::vector<HostId>& hosts) const {
    policy::Placement placement{.type = configurations_.fleet().hosts[static_cast<size_t>(hosts.front().value)].type,
                                .hosts = {}};
    for (const HostId host : hosts)
      placement.hosts.push_back({host, cluster_.hosts[static_cast<size_t>(host.value)].gpus});
    const Configuration* found = configurations_.best(job_, placement);
    if (found == nullptr) {
      return invalid(fmt::format("no configuration of {} fits {} hosts ({} GPUs)",
                                 configurations_.models().model_of(job_).name, hosts.size(), placement.gpus()));
    }
    return found;
  }

  const Configurations& configurations_;
  const cluster::Cluster& cluster_;
  const Fabric& fabric_;
  const policy::Job job_;
  ChangePlanner planner_;
};

}  // namespace

std::unique_ptr<RecoveryPlans> make_recovery_plans(const Configurations& configurations, const Fabric& fabric,
                                                   const ChangeStrategy& strategy, const policy::Job& job) {
  return std::make_unique<PlannedRecovery>(configurations, fabric, strategy, job);
}

}  // namespace scalai::jobs
