#include "ptc/run/control/internal/policy_view.h"

#include <algorithm>
#include <map>

#include "ptc/base/status.h"
#include "ptc/run/scenario/job_state.h"

namespace scalai::control {

namespace {

std::vector<std::string> names_of(const policy::Fleet& fleet) {
  std::vector<std::string> names;
  for (const policy::TypeSpec& type : fleet.types) names.push_back(type.name);
  return names;
}

policy::Job job_of(const scenario::JobSpec& spec) {
  return {.name = spec.name,
          .type = spec.shape.name,
          .submit_s = spec.submit_s,
          .gpus = spec.gpus,
          .min_gpus = spec.min_gpus,
          .max_gpus = spec.max_gpus,
          .work = spec.steps > 0 ? static_cast<double>(spec.steps) : kEndless,
          .weight = spec.weight,
          .deadline_s = spec.deadline_s.value_or(policy::kNever),
          .batch = spec.training.global_batch};
}

}  // namespace

PolicyView::PolicyView(const scenario::Scenario& scenario, const scenario::Strategy& strategy)
    : scenario_(scenario),
      strategy_(strategy),
      fleet_(policy::fleet_of(scenario.cluster)),
      ledger_(fleet_, nullptr),
      throughput_(scenario, strategy.data_parallel_only, names_of(fleet_)),
      progress_(scenario.jobs.size()) {
  for (const scenario::JobSpec& spec : scenario.jobs) {
    policy::Job job = job_of(spec);
    // On the type where it runs fastest: what "alone" means is not the trace's here.
    double best_s = 0;
    for (size_t type = 0; type < fleet_.types.size(); ++type) {
      const double step_s =
          throughput_.step_s(static_cast<int>(jobs_.size()), policy::GpuType(static_cast<int64_t>(type)), spec.gpus);
      if (step_s > 0 && (best_s == 0 || step_s < best_s)) best_s = step_s;
    }
    if (spec.steps > 0 && best_s > 0) job.duration_s = static_cast<double>(spec.steps) * best_s;
    jobs_.push_back(std::move(job));
  }
}

void PolicyView::set_usable(const std::vector<char>& by_device) {
  policy::Fleet usable = fleet_;
  for (size_t host = 0; host < usable.hosts.size(); ++host) {
    const std::vector<DeviceId> devices = scenario_.cluster.devices_of(HostId(static_cast<int64_t>(host)));
    usable.hosts[host].gpus = static_cast<int>(std::count_if(devices.begin(), devices.end(), [&](DeviceId device) {
      return by_device.at(static_cast<size_t>(device.value)) != 0;
    }));
  }
  ledger_ = policy::HostLedger(usable, nullptr);
}

policy::Placement PolicyView::placement_of(const std::vector<DeviceId>& devices) const {
  policy::Placement placement;
  std::map<HostId, int> hosts;
  for (const DeviceId device : devices) ++hosts[scenario_.cluster.host_of(device)];
  for (const auto& [host, gpus] : hosts) placement.hosts.push_back({.host = host, .gpus = gpus});
  if (!hosts.empty()) placement.type = fleet_.hosts[static_cast<size_t>(hosts.begin()->first.value)].type;
  return placement;
}

double PolicyView::price(policy::GpuType type) const {
  return fleet_.types.at(static_cast<size_t>(type.value)).price_per_gpu_hour;
}

double PolicyView::change_cost_s(policy::JobId id, int to_gpus) const {
  const auto index = static_cast<size_t>(id.value);
  const scenario::JobSpec& spec = scenario_.jobs.at(index);
  const change::Costs& costs = strategy_.costs;
  const change::Groups groups = change::groups_of(std::max(1, to_gpus), scenario_.cluster);
  const double fixed_s = change::fixed_seconds(costs, groups) + costs.transfer_start_s;
  if (progress_[index].first_start_s == policy::kNever) return fixed_s;  // nothing to move yet
  const cluster::Host& host = scenario_.cluster.hosts.front();
  const double card_bytes_per_s = host.nics * cluster::reached(host).nic_bytes_per_s;
  if (card_bytes_per_s <= 0) return fixed_s;
  const int most = std::max(to_gpus, progress_[index].placement.gpus());
  const int hosts = std::max(1, (most + host.gpus - 1) / std::max(1, host.gpus));
  const double bytes = static_cast<double>(scenario::state_bytes(spec)) * spec.state_ratio;
  return fixed_s + bytes / hosts / card_bytes_per_s;
}

}  // namespace scalai::control
