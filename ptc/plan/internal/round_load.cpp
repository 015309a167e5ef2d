#include "ptc/plan/internal/round_load.h"

#include <algorithm>
#include <array>

#include "ptc/plan/estimate.h"

namespace scalai::plan::internal {
namespace {

double time(int64_t bytes, double bandwidth) { return bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0; }

}  // namespace

RoundLoad::RoundLoad(const cluster::Cluster& cluster)
    : cluster_(cluster),
      nic_(cluster.hosts.size() * 2, 0),
      link_(static_cast<size_t>(cluster.device_count()) * 2, 0),
      pcie_(static_cast<size_t>(cluster.device_count()), 0),
      copy_(cluster.hosts.size(), 0) {
  for (const cluster::Tier& tier : cluster::tiers_of(cluster)) {
    if (tier.oversubscription <= 1) continue;
    Uplinks& uplinks = uplinks_.emplace_back(Uplinks{.tier = tier, .rates = {}, .bytes = {}});
    for (const double nics : cluster::nics_below(cluster::reached(cluster), tier))
      uplinks.rates.push_back(nics / tier.oversubscription);
    uplinks.bytes.resize(uplinks.rates.size() * 2);
  }
}

RoundLoad::End RoundLoad::end_of(DeviceId device) const {
  const HostId host = cluster_.host_of(device);
  const cluster::Host& one = cluster_.hosts[static_cast<size_t>(host.value)];
  return {host, (device.value - one.first_device) * one.nics / one.gpus};
}

void RoundLoad::add_fabric(End src, End dst, int64_t bytes) {
  backbone_ += bytes;
  for (Uplinks& uplinks : uplinks_) {
    const int up = src.host.valid() ? uplinks.tier.switch_of(src.host, src.nic) : -1;
    const int down = uplinks.tier.switch_of(dst.host, dst.nic);
    if (up == down) continue;  // and so on every tier above
    if (up >= 0) uplinks.bytes[static_cast<size_t>(up) * 2] += bytes;
    uplinks.bytes[static_cast<size_t>(down) * 2 + 1] += bytes;
  }
}

void RoundLoad::add(const PlanDraft& plan, const std::vector<TensorId>& tensors, const tensor::Box& box,
                    std::span<const Leg> legs) {
  std::array<int64_t, kTransferClasses> bytes;
  bytes.fill(-1);
  for (const Leg& leg : legs) {
    int64_t& sum = bytes[static_cast<size_t>(leg.transfer_class)];
    if (sum < 0) {
      sum = 0;
      for (const TensorId id : tensors) sum += plan.tensor(id).element_bytes(leg.transfer_class);
      sum *= box.volume();
    }
    add(leg, sum);
  }
}

void RoundLoad::add(const Leg& leg, int64_t bytes) {
  if (leg.transfer_class == TransferClass::kKept || leg.transfer_class == TransferClass::kDerived) return;
  const auto dst = static_cast<size_t>(leg.dst.value);
  const auto dst_host = static_cast<size_t>(cluster_.host_of(leg.dst).value);
  copy_[dst_host] += bytes;
  copied_ += bytes;
  if (leg.transfer_class == TransferClass::kSameDevice) return;
  hops_ = std::max(hops_, leg.hop + 1);
  const bool memory = leg.src.kind == Location::Kind::kHostMemory;
  if (leg.transfer_class == TransferClass::kFromStorage) {
    storage_ += bytes;
    nic_[dst_host * 2 + 1] += bytes;
    pcie_[dst] += bytes;
    add_fabric({}, end_of(leg.dst), bytes);
  } else if (const HostId from = memory ? HostId(leg.src.index) : cluster_.host_of(DeviceId(leg.src.index));
             leg.transfer_class == TransferClass::kCrossHost &&
             (memory || cluster_.domain_of(from) != cluster_.domain_of(cluster_.host_of(leg.dst)))) {
    nic_[static_cast<size_t>(from.value) * 2] += bytes;
    nic_[dst_host * 2 + 1] += bytes;
    add_fabric(memory ? End{from, 0} : end_of(DeviceId(leg.src.index)), end_of(leg.dst), bytes);
  } else if (memory) {
    pcie_[dst] += bytes;
  } else {
    link_[static_cast<size_t>(leg.src.index) * 2] += bytes;
    link_[dst * 2 + 1] += bytes;
  }
}

double RoundLoad::seconds() const {
  double longest =
      std::max({time(storage_, cluster_.storage_read_bytes_per_s), time(copied_, cluster_.machine_copy_bytes_per_s),
                cluster_.fabric == cluster::FabricKind::kStar ? time(backbone_, cluster_.backbone_bytes_per_s) : 0});
  for (const Uplinks& uplinks : uplinks_) {
    for (size_t end = 0; end < uplinks.bytes.size(); ++end)
      longest = std::max(longest, time(uplinks.bytes[end], uplinks.rates[end / 2]));
  }
  for (size_t host = 0; host < cluster_.hosts.size(); ++host) {
    const cluster::Host& one = cluster_.hosts[host];
    const cluster::Rates rates = cluster::reached(one);
    longest = std::max(longest, time(copy_[host], one.copy_bytes_per_s));
    for (const size_t end : {host * 2, host * 2 + 1})
      longest = std::max(longest, time(nic_[end], one.nics * rates.nic_bytes_per_s));
    for (int i = 0; i < one.gpus; ++i) {
      const auto device = static_cast<size_t>(one.first_device + i);
      for (const size_t end : {device * 2, device * 2 + 1})
        longest = std::max(longest, time(link_[end], rates.gpu_link_bytes_per_s));
      longest = std::max(longest, time(pcie_[device], rates.pcie_bytes_per_s));
    }
  }
  return hops_ * kMessageLatency_s + longest;
}

std::vector<double> round_seconds(const PlanDraft& plan, const cluster::Cluster& cluster) {
  std::vector<std::vector<const Instance*>> rounds(static_cast<size_t>(plan.rounds));
  for (const Instance& instance : plan.instances) rounds[static_cast<size_t>(instance.round)].push_back(&instance);
  std::vector<double> seconds;
  for (const std::vector<const Instance*>& instances : rounds) {
    RoundLoad load(cluster);
    for (const Instance* instance : instances)
      load.add(plan, plan.tensors_of(*instance), instance->box, plan.patterns.legs(instance->pattern));
    seconds.push_back(load.seconds());
  }
  return seconds;
}

}  // namespace scalai::plan::internal
