#include "sim/jobs/planned/internal/abstract_change.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::jobs::internal {
namespace {

size_t at(HostId host) { return static_cast<size_t>(host.value); }

// Numbers for the blocks in which hosts lie (leaves, racks, groups), those inside a block counted anew.
class BlockNumbers {
 public:
  explicit BlockNumbers(std::vector<int> sizes) : sizes_(std::move(sizes)) {}

  // Of a host that was not asked for before: each block as far as its hosts have been asked for.
  int next(HostId host) {
    int number = 0;
    for (size_t b = sizes_.size(); b-- > 0;) {
      const int block = host.value / sizes_[b];
      const int outer = b + 1 < sizes_.size() ? host.value / sizes_[b + 1] : 0;
      const auto [known, fresh] = number_of_block_.try_emplace({b, block}, 0);
      if (fresh) known->second = blocks_in_[{b, outer}]++;
      number += known->second * sizes_[b];
    }
    return number + hosts_in_[sizes_.empty() ? 0 : host.value / sizes_.front()]++;
  }

 private:
  std::vector<int> sizes_;  // ascending, each divides the next
  std::map<std::pair<size_t, int>, int> number_of_block_, blocks_in_;
  std::map<int, int> hosts_in_;
};

void add(Hasher& hasher, const std::vector<DeviceId>& devices) {
  hasher.add(static_cast<int64_t>(devices.size()));
  for (const DeviceId device : devices) hasher.add(device.value);
}

}  // namespace

std::vector<DeviceId> canonical_ranks(const HeldState& state, const std::set<HostId>& lost,
                                      const cluster::Cluster& cluster) {
  const bool alike = state.config.zero == 0 && state.config.ep == 1 && state.config.etp == 1 && state.config.dp > 1;
  if (!alike || lost.empty()) return state.devices;
  const collection::Mesh mesh = collection::dense_mesh(state.config);
  const auto replicas = static_cast<size_t>(state.config.dp);
  std::vector<std::vector<size_t>> ranks(replicas);             // by replica: its ranks
  std::vector<std::vector<size_t>> losses(replicas);            // places among them that are lost
  for (size_t rank = 0; rank < state.devices.size(); ++rank) {  // ascending, so that places correspond
    const auto replica = static_cast<size_t>(mesh.coordinate(LogicalRank(static_cast<int64_t>(rank)), "dp"));
    if (lost.count(cluster.host_of(state.devices[rank])) != 0) losses[replica].push_back(ranks[replica].size());
    ranks[replica].push_back(rank);
  }
  std::vector<size_t> order(replicas);
  for (size_t i = 0; i < replicas; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return losses[a] < losses[b]; });
  std::vector<DeviceId> devices(state.devices.size());
  for (size_t i = 0; i < replicas; ++i) {
    for (size_t k = 0; k < ranks[i].size(); ++k) devices[ranks[i][k]] = state.devices[ranks[order[i]][k]];
  }
  return devices;
}

AbstractChange::AbstractChange(const cluster::Cluster& cluster, const ChangePlanner::Question& question, HostId hub)
    : cluster_(cluster), to_(question.devices) {
  if (question.source != ChangePlanner::Source::kStorage) {
    from_ = canonical_ranks(*question.from, question.lost, cluster);
    lost_ = question.lost;
  }
  std::sort(to_.begin(), to_.end());
  number_hosts(question, hub);
  build_cluster();
  if (hub.valid()) hub_ = HostId(number_of_host_.at(hub));
}

// Racks and groups are blocks of numbers, as they are of real hosts; a block that is not full leaves numbers out.
void AbstractChange::number_hosts(const ChangePlanner::Question& question, HostId hub) {
  std::vector<HostId> in_order;
  std::set<HostId> seen;
  const auto note = [&](HostId host) {
    if (seen.insert(host).second) in_order.push_back(host);
  };
  for (const DeviceId device : from_) note(cluster_.host_of(device));
  // What is read from storage goes to the ranks in the order of the state that was, where there was one.
  if (question.source == ChangePlanner::Source::kStorage && question.from != nullptr) {
    std::set<HostId> wanted;
    for (const DeviceId device : to_) wanted.insert(cluster_.host_of(device));
    for (const DeviceId device : question.from->devices) {
      if (wanted.count(cluster_.host_of(device)) != 0) note(cluster_.host_of(device));
    }
  }
  for (const DeviceId device : to_) note(cluster_.host_of(device));
  if (hub.valid()) note(hub);
  BlockNumbers numbers(cluster_.block_sizes());
  for (const HostId host : in_order) {
    const auto place = static_cast<size_t>(numbers.next(host));
    if (hosts_.size() <= place) hosts_.resize(place + 1);
    hosts_[place] = host;
  }
  for (size_t k = 0; k < hosts_.size(); ++k) {
    if (hosts_[k].valid()) number_of_host_[hosts_[k]] = static_cast<int>(k);
  }
}

void AbstractChange::build_cluster() {
  abstract_ = {.name = "abstract",
               .hosts = {},
               .fabric = cluster_.fabric,
               .leaf_hosts = cluster_.leaf_hosts,
               .group_hosts = cluster_.group_hosts,
               .rack_hosts = cluster_.rack_hosts,
               .oversubscription = cluster_.oversubscription,
               .group_oversubscription = cluster_.group_oversubscription,
               .backbone_bytes_per_s = cluster_.backbone_bytes_per_s,
               .storage_read_bytes_per_s = cluster_.storage_read_bytes_per_s,
               .storage_write_bytes_per_s = cluster_.storage_write_bytes_per_s,
               .machine_copy_bytes_per_s = cluster_.machine_copy_bytes_per_s};
  int first = 0;
  std::map<int, int> number_of_domain;
  for (const HostId host : hosts_) {
    cluster::Host added{.nics = 0};  // a hole has none, so that it is not taken for one without a limit
    if (host.valid()) added = cluster_.hosts[at(host)];
    if (added.nvlink_domain >= 0) {
      const int next = static_cast<int>(number_of_domain.size());
      added.nvlink_domain = number_of_domain.emplace(added.nvlink_domain, next).first->second;
    }
    added.first_device = first;
    first += added.gpus;
    abstract_.hosts.push_back(std::move(added));
  }
}

DeviceId AbstractChange::number_of(DeviceId real) const {
  const int number = number_of_host_.at(cluster_.host_of(real));
  return DeviceId(abstract_.hosts[static_cast<size_t>(number)].first_device + cluster_.local_index(real));
}

std::vector<DeviceId> AbstractChange::numbered(const std::vector<DeviceId>& real) const {
  std::vector<DeviceId> devices;
  devices.reserve(real.size());
  for (const DeviceId device : real) devices.push_back(number_of(device));
  return devices;
}

std::vector<DeviceId> AbstractChange::candidates() const {
  std::vector<DeviceId> devices = numbered(to_);
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::set<DeviceId> AbstractChange::lost_devices() const {
  std::set<DeviceId> devices;
  for (const DeviceId device : from_) {
    if (lost_.count(cluster_.host_of(device)) != 0) devices.insert(number_of(device));
  }
  return devices;
}

std::string AbstractChange::key(const ChangePlanner::Question& question) const {
  Hasher hasher;
  hasher.add(question.to->model->name).add(static_cast<int64_t>(question.source));
  hasher.add(reinterpret_cast<intptr_t>(question.to->model));
  hasher.add(collection::canonical(question.to->config));
  hasher.add(from_.empty() ? std::string() : collection::canonical(question.from->config));
  add(hasher, from_devices());
  add(hasher, candidates());
  const std::set<DeviceId> gone = lost_devices();
  add(hasher, {gone.begin(), gone.end()});
  hasher.add(hub_.value);
  for (const cluster::Host& host : abstract_.hosts) {
    hasher.add(host.gpus).add(host.nics).add(host.gpu.name).add(host.nvlink_domain);
    for (const double rate : {host.gpu_link_bytes_per_s, host.pcie_bytes_per_s, host.nic_bytes_per_s,
                              host.store_serve_bytes_per_s, host.store_ingest_bytes_per_s, host.copy_bytes_per_s})
      hasher.add_double(rate);
  }
  return hasher.hex();
}

Place AbstractChange::place_of(DeviceId abstract) const {
  return {.host = abstract_.host_of(abstract).value, .gpu = abstract_.local_index(abstract)};
}

}  // namespace scalai::jobs::internal
