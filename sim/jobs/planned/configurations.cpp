#include "sim/jobs/planned/configurations.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/cost/step/devices.h"
#include "ptc/cost/step/software.h"

namespace scalai::jobs {
namespace {

std::vector<int> filled(int gpus, int per_host) {
  std::vector<int> shares(static_cast<size_t>(gpus / per_host), per_host);
  if (gpus % per_host != 0) shares.push_back(gpus % per_host);
  return shares;
}

bool is_filled(const std::vector<int>& gpus_of_host, int per_host) {
  return std::all_of(gpus_of_host.begin(), gpus_of_host.end() - 1, [&](int gpus) { return gpus == per_host; });
}

}  // namespace

Configurations::Configurations(const cluster::Cluster& cluster, const policy::Fleet& fleet, const JobModels& models,
                               const step::StepTimeModel* steps)
    : cluster_(cluster), fleet_(fleet), models_(models), steps_(steps), host_of_type_(fleet.types.size(), -1) {
  SCALAI_CHECK(cluster.hosts.size() == fleet.hosts.size(), "cluster and fleet differ in hosts");
  for (size_t h = 0; h < fleet.hosts.size(); ++h) {
    int& largest = host_of_type_[static_cast<size_t>(fleet.hosts[h].type.value)];
    SCALAI_CHECK(fleet.hosts[h].gpus <= cluster.hosts[h].gpus, "the fleet has GPUs that the cluster lacks");
    if (largest < 0 || cluster.hosts[h].gpus > cluster.hosts[static_cast<size_t>(largest)].gpus)
      largest = static_cast<int>(h);
  }
}

const cluster::Host* Configurations::host_of(policy::GpuType type) const {
  const int host = host_of_type_[static_cast<size_t>(type.value)];
  return host < 0 ? nullptr : &cluster_.hosts[static_cast<size_t>(host)];
}

const Configuration* Configurations::best(const policy::Job& job, policy::GpuType type, int gpus) const {
  const cluster::Host* host = host_of(type);
  if (host == nullptr || gpus < 1) return nullptr;
  Key key{.model = &models_.model_of(job), .type = type, .gpus_of_host = filled(gpus, host->gpus), .domains = {}};
  key.domains = filled_domains(type, key.gpus_of_host.size());
  return find(std::move(key));
}

const Configuration* Configurations::best(const policy::Job& job, const policy::Placement& placement) const {
  if (placement.empty()) return nullptr;
  std::vector<std::pair<int, int64_t>> shares;  // GPUs, domain
  bool joined = false;
  for (const policy::HostShare& share : placement.hosts) {
    shares.emplace_back(share.gpus, cluster_.domain_of(share.host));
    joined = joined || cluster_.hosts[static_cast<size_t>(share.host.value)].nvlink_domain >= 0;
  }
  std::sort(shares.begin(), shares.end(), std::greater<>());
  Key key{.model = &models_.model_of(job), .type = placement.type, .gpus_of_host = {}, .domains = {}};
  std::map<int64_t, int> numbers;
  for (const auto& [gpus, domain] : shares) {
    key.gpus_of_host.push_back(gpus);
    const int number = numbers.emplace(domain, static_cast<int>(numbers.size())).first->second;
    if (joined) key.domains.push_back(number);
  }
  return find(std::move(key));
}

// As full as domains of this type get.
std::vector<int> Configurations::filled_domains(policy::GpuType type, size_t hosts) const {
  std::vector<int> domains;
  const cluster::Host& host = *host_of(type);
  for (size_t h = 0; host.nvlink_domain >= 0 && h < hosts; ++h)
    domains.push_back(static_cast<int>(h) / host.nvlink_hosts);
  return domains;
}

Configurations::Scratch Configurations::scratch(policy::GpuType type, const std::vector<int>& gpus_of_host,
                                                std::vector<int> domains) const {
  if (domains.empty()) domains = filled_domains(type, gpus_of_host.size());
  Scratch made{.cluster = cluster_, .devices = {}};
  made.cluster.hosts.clear();
  int first = 0;
  for (const int gpus : gpus_of_host) {
    cluster::Host host = *host_of(type);
    host.nvlink_domain = domains.empty() ? -1 : domains[made.cluster.hosts.size()];
    host.first_device = first;
    first += host.gpus;
    for (int i = 0; i < gpus; ++i) made.devices.emplace_back(host.first_device + i);
    made.cluster.hosts.push_back(std::move(host));
  }
  return made;
}

const Configuration* Configurations::find(Key key) const {
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second.get();
  ++searches_;
  return known_.emplace(key, look(key)).first->second.get();
}

std::unique_ptr<Configuration> Configurations::look(const Key& key) const {
  const cluster::Host& host = *host_of(key.type);
  const JobModel& model = *key.model;
  const step::Math math = model.training.precision.math;
  step::SearchSpace space;
  space.gpus = std::accumulate(key.gpus_of_host.begin(), key.gpus_of_host.end(), 0);
  space.all_gpus = false;
  space.host = cluster::joined(host);
  space.base = model.training;
  SCALAI_CHECK(
      step::train_with(step::kDefaultSoftware, host.gpu.name, model.shape, space.base, model.pins.zero.value_or(1))
          .ok());
  space.micro_batches = model.micro_batches;
  space.pins = model.pins;
  if (model.pins.zero) space.zero_stages = {*model.pins.zero};
  space.keep = 1;
  space.headroom = step::kHeadroom;
  Scratch machine;
  const bool plain = cluster::is_wide(cluster_) && is_filled(key.gpus_of_host, host.gpus) && key.domains.empty();
  if (!plain || simulates()) machine = scratch(key.type, key.gpus_of_host, key.domains);
  if (!plain) {
    space.hardware = [&](const collection::ParallelConfig& config) {
      const std::vector<DeviceId> devices = step::devices_for(config, machine.devices, machine.cluster, math);
      return step::hardware_of(machine.cluster, config, devices, {}, math);
    };
  }
  const absl::StatusOr<step::SearchResult> result = step::search(model.shape, space);
  if (!result.ok() || result->best.empty()) return nullptr;
  const step::Candidate& best = result->best.front();
  auto found = std::make_unique<Configuration>(Configuration{.model = &model,
                                                             .config = best.config,
                                                             .training = best.training,
                                                             .time = best.time,
                                                             .step_s = best.time.step_s});
  if (!simulates()) return found;
  const std::vector<DeviceId> devices = step::devices_for(best.config, machine.devices, machine.cluster, math);
  const std::map<DeviceId, double> nominal;
  const std::map<std::string, double> whole;
  const step::StepInput input{model.shape, found->config, found->training, machine.cluster, devices, nominal, whole};
  found->step_s = steps_->steps_s({&input, 1}).front();
  return found;
}

}  // namespace scalai::jobs
