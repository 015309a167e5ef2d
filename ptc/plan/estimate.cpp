#include "ptc/plan/estimate.h"

#include <algorithm>
#include <numeric>

namespace scalai::plan {
namespace {

// Bytes of one round by link, as dense lists.
class RoundLoad {
 public:
  explicit RoundLoad(const cluster::Cluster& cluster)
      : cluster_(cluster),
        nic_(cluster.hosts.size() * 2, 0),
        link_(static_cast<size_t>(cluster.device_count()) * 2, 0),
        pcie_(static_cast<size_t>(cluster.device_count()), 0),
        copy_(cluster.hosts.size(), 0) {}

  void add(const Leg& leg, int64_t bytes) {
    if (leg.transfer_class == TransferClass::kKept || leg.transfer_class == TransferClass::kDerived) return;
    copy_[static_cast<size_t>(cluster_.host_of(leg.dst).value)] += bytes;
    copied_ += bytes;
    if (leg.transfer_class == TransferClass::kSameDevice) return;
    hops_ = std::max(hops_, leg.hop + 1);
    const auto dst = static_cast<size_t>(leg.dst.value);
    const bool memory = leg.src.kind == Location::Kind::kHostMemory;
    if (leg.transfer_class == TransferClass::kFromStorage) {
      storage_ += bytes;
      pcie_[dst] += bytes;
    } else if (leg.transfer_class == TransferClass::kCrossHost) {
      const HostId from = memory ? HostId(leg.src.index) : cluster_.host_of(DeviceId(leg.src.index));
      nic_[static_cast<size_t>(from.value) * 2] += bytes;
      nic_[static_cast<size_t>(cluster_.host_of(leg.dst).value) * 2 + 1] += bytes;
    } else if (memory) {
      pcie_[dst] += bytes;
    } else {
      link_[static_cast<size_t>(leg.src.index) * 2] += bytes;
      link_[dst * 2 + 1] += bytes;
    }
  }

  double seconds() const {
    double longest =
        std::max(time(storage_, cluster_.storage_read_bytes_per_s), time(copied_, cluster_.machine_copy_bytes_per_s));
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

 private:
  static double time(int64_t bytes, double bandwidth) {
    return bandwidth > 0 ? static_cast<double>(bytes) / bandwidth : 0;
  }

  const cluster::Cluster& cluster_;
  std::vector<int64_t> nic_, link_, pcie_, copy_;  // by host or device; up, down
  int64_t storage_ = 0, copied_ = 0;
  int32_t hops_ = 0;
};

}  // namespace

std::vector<double> round_seconds(const Plan& plan, const cluster::Cluster& cluster) {
  std::vector<std::vector<const Instance*>> rounds(static_cast<size_t>(plan.rounds));
  for (const Instance& instance : plan.instances) rounds[static_cast<size_t>(instance.round)].push_back(&instance);
  std::vector<double> seconds;
  for (const std::vector<const Instance*>& instances : rounds) {
    RoundLoad load(cluster);
    for (const Instance* instance : instances) {
      for (const Leg& leg : plan.patterns.legs(instance->pattern)) {
        int64_t bytes = 0;
        for (const TensorId id : plan.tensors_of(*instance)) bytes += plan.tensor(id).element_bytes(leg.transfer_class);
        load.add(leg, bytes * instance->box.volume());
      }
    }
    seconds.push_back(load.seconds());
  }
  return seconds;
}

double estimate_seconds(const Plan& plan, const cluster::Cluster& cluster) {
  const std::vector<double> seconds = round_seconds(plan, cluster);
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

int64_t most_allocated_bytes(const Plan& plan) {
  int64_t most = 0;
  for (const DeviceMemory& memory : plan.memory)
    most = std::max(most, std::max(memory.before, memory.after) + memory.peak_extra - memory.before);
  return most;
}

double allocate_seconds(const Plan& plan, double bytes_per_s) {
  return bytes_per_s > 0 ? static_cast<double>(most_allocated_bytes(plan)) / bytes_per_s : 0;
}

bool frees_early(const Plan& plan) {
  for (int32_t pattern = 0; pattern < plan.patterns.size(); ++pattern) {
    if (!plan.patterns.frees(pattern).empty()) return true;
  }
  return false;
}

}  // namespace scalai::plan
