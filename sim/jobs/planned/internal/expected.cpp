#include "sim/jobs/planned/internal/expected.h"

#include <algorithm>

#include "ptc/cost/step/devices.h"

namespace scalai::jobs::internal {
namespace {

// The type on which the job can run that comes first.
const Configuration* first_fit(const Configurations& configurations, const policy::Job& job, int gpus) {
  for (size_t t = 0; t < configurations.fleet().types.size(); ++t) {
    const policy::GpuType type(static_cast<int64_t>(t));
    if (configurations.fleet().gpus(type) < gpus) continue;
    if (const Configuration* found = configurations.best(job, type, gpus)) return found;
  }
  return nullptr;
}

}  // namespace

double alone_s(const ChangeShape& shape, const std::vector<HostId>& hosts, const Fabric& fabric) {
  double seconds = 0;
  for (const ChangeStage& stage : shape.stages) {
    seconds += stage.wait_s;
    if (stage.flows != nullptr) seconds += fabric.alone_s(stage.flows, hosts);
  }
  return seconds;
}

double write_seconds(const JobModel& model, const cluster::Cluster& cluster) {
  const auto bytes = static_cast<double>(model::state_bytes(model.model, model.recipe, /*per_home=*/false));
  return cluster.storage_write_bytes_per_s > 0 ? bytes / cluster.storage_write_bytes_per_s : 0;
}

ExpectedSeconds::ExpectedSeconds(const Configurations& configurations, const Fabric& fabric,
                                 const ChangeStrategy& strategy, int most_planned_gpus)
    : configurations_(configurations), fabric_(fabric), strategy_(strategy), most_planned_gpus_(most_planned_gpus) {}

double ExpectedSeconds::seconds(const policy::Job& job, int from_gpus, int to_gpus) const {
  if (to_gpus < 1 || from_gpus == to_gpus) return 0;
  const Key key{&configurations_.models().model_of(job), from_gpus, to_gpus};
  const double saving_s = from_gpus > 0 && strategy_.from_checkpoint && strategy_.save_first
                              ? write_seconds(configurations_.models().model_of(job), configurations_.cluster())
                              : 0;
  if (const auto made = planned_.find(key); made != planned_.end()) return saving_s + made->second;
  if (const auto known = known_.find(key); known != known_.end()) return saving_s + known->second;
  const Configuration* to = first_fit(configurations_, job, to_gpus);
  if (to == nullptr) return policy::kNever;
  if (from_gpus < 1)
    return change::start_seconds(strategy_.costs, change::groups_of(to->gpus(), configurations_.cluster()));
  const Configuration* from = first_fit(configurations_, job, from_gpus);
  const bool small = from != nullptr && std::max(from_gpus, to_gpus) <= most_planned_gpus_;
  known_[key] = small ? planned(job, *from, *to) : estimated(*to);
  return saving_s + known_[key];
}

// On the first devices of the cluster whose hosts are of the type that comes first: any will do for an expectation.
double ExpectedSeconds::planned(const policy::Job& job, const Configuration& from, const Configuration& to) const {
  const cluster::Cluster& cluster = configurations_.cluster();
  const policy::Fleet& fleet = configurations_.fleet();
  policy::GpuType type;
  for (size_t t = 0; t < fleet.types.size() && !type.valid(); ++t) {
    const policy::GpuType one(static_cast<int64_t>(t));
    const bool both = fleet.gpus(one) >= std::max(from.gpus(), to.gpus()) &&
                      configurations_.best(job, one, from.gpus()) != nullptr &&
                      configurations_.best(job, one, to.gpus()) != nullptr;
    if (both) type = one;
  }
  if (!type.valid()) return estimated(to);
  std::vector<DeviceId> devices;
  for (size_t h = 0; h < fleet.hosts.size(); ++h) {
    if (fleet.hosts[h].type != type) continue;
    for (const DeviceId device : cluster.devices_of(HostId(static_cast<int64_t>(h)))) devices.push_back(device);
  }
  const auto first = [&](const Configuration& one) {
    return std::vector<DeviceId>(devices.begin(), devices.begin() + one.gpus());
  };
  const HeldState held{
      .model = from.model, .config = from.config, .devices = step::devices_for(from.config, first(from), cluster)};
  ChangePlanner planner(cluster, strategy_);
  const auto source = strategy_.from_checkpoint ? ChangePlanner::Source::kStorage : ChangePlanner::Source::kDevices;
  const auto made = planner.plan_anew({.from = &held, .lost = {}, .to = &to, .devices = first(to), .source = source});
  return made.ok() ? alone_s(*made->shape, made->hosts, fabric_) : estimated(to);
}

// A rank's share of the state: parameters by tp·pp, optimizer state by ZeRO over dp as well.
double ExpectedSeconds::estimated(const Configuration& to) const {
  const collection::ParallelConfig& config = to.config;
  const auto bytes = static_cast<double>(model::state_bytes(to.model->model, to.model->recipe, /*per_home=*/false));
  const double parts = double(config.tp) * config.pp * std::max(1, config.ep) * (config.zero > 0 ? config.dp : 1);
  const cluster::Host& host = configurations_.cluster().hosts.front();
  const double nic = cluster::reached(host).nic_bytes_per_s * host.nics / std::max(1, host.gpus);
  const double waits = change::fixed_seconds(strategy_.costs, change::groups_of(to.gpus(), configurations_.cluster())) +
                       strategy_.costs.transfer_start_s;
  return waits + (nic > 0 ? bytes / parts / nic : 0);
}

void ExpectedSeconds::note(const policy::Job& job, int from_gpus, int to_gpus,
                           const std::shared_ptr<const ChangeShape>& shape, const std::vector<HostId>& hosts) {
  const Key key{&configurations_.models().model_of(job), from_gpus, to_gpus};
  if (from_gpus != to_gpus && planned_.count(key) == 0) planned_[key] = alone_s(*shape, hosts, fabric_);
}

}  // namespace scalai::jobs::internal
