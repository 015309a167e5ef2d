#include "ptc/run/control/internal/policy_placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ptc/base/status.h"

namespace scalai::control {
namespace {

using policy::Grant;

class Placer {
 public:
  Placer(const PolicyView& view, const cluster::Cluster& cluster, const Standing& standing)
      : view_(view), cluster_(cluster), standing_(standing), granted_(standing.granted) {}

  absl::Status check(const policy::Decision& decision) const;
  absl::Status place(const std::vector<Grant>& grants);
  std::vector<Wish> changes() const;

 private:
  absl::Status check(const Grant& grant) const;
  bool keeps(const Grant& grant) const;
  bool usable(DeviceId device) const { return standing_.usable[static_cast<size_t>(device.value)] != 0; }
  bool idle(DeviceId device) const { return standing_.held[static_cast<size_t>(device.value)] == 0; }
  std::vector<DeviceId> home(const Grant& grant) const;
  std::vector<DeviceId> others(const Grant& grant, bool idle_only) const;
  absl::Status on_hosts(const Grant& grant);
  absl::Status anywhere(const Grant& grant);
  void take(const Grant& grant, std::vector<DeviceId> devices);
  const std::string& name(policy::JobId job) const { return view_.job(job).name; }

  const PolicyView& view_;
  const cluster::Cluster& cluster_;
  const Standing& standing_;
  std::vector<std::vector<DeviceId>> granted_;
  std::set<DeviceId> taken_;
};

absl::Status Placer::check(const Grant& grant) const {
  const auto active = view_.active();
  const auto jobs = static_cast<int64_t>(standing_.granted.size());
  if (grant.job.value < 0 || grant.job.value >= jobs)
    return failed(fmt::format("the policy gives GPUs to job {}, which does not exist", grant.job.value));
  const std::string& job = name(grant.job);
  if (std::find(active.begin(), active.end(), grant.job) == active.end())
    return failed(fmt::format("the policy gives GPUs to job \"{}\", which is not there any more, or not yet", job));
  if (grant.gpus < 0) return failed(fmt::format("the policy gives job \"{}\" {} GPUs", job, grant.gpus));
  if (grant.beside.valid()) {
    return failed(
        fmt::format("the policy puts job \"{}\" beside job {} on the same GPUs, which jobs of a scenario cannot share: "
                    "take a policy without space sharing",
                    job, grant.beside.value));
  }
  if (grant.gpus == 0) return absl::OkStatus();
  if (grant.type.value < 0 || grant.type.value >= static_cast<int64_t>(view_.fleet().types.size()))
    return failed(
        fmt::format("the policy gives job \"{}\" GPUs of type {}, which does not exist", job, grant.type.value));
  int sum = 0;
  std::set<HostId> named;
  for (const policy::HostShare& share : grant.hosts) {
    const bool known = share.host.value >= 0 && share.host.value < static_cast<int64_t>(cluster_.hosts.size());
    if (!known || !named.insert(share.host).second || share.gpus < 1)
      return failed(fmt::format("the policy gives job \"{}\" {} GPUs on h{}, which does not exist or is listed twice",
                                job, share.gpus, share.host.value));
    if (view_.fleet().hosts[static_cast<size_t>(share.host.value)].type != grant.type)
      return failed(
          fmt::format("the policy gives job \"{}\" GPUs of another type than those of h{}", job, share.host.value));
    sum += share.gpus;
  }
  if (!grant.hosts.empty() && sum != grant.gpus)
    return failed(fmt::format("the policy gives job \"{}\" {} GPUs, and {} on its hosts", job, grant.gpus, sum));
  return absl::OkStatus();
}

absl::Status Placer::check(const policy::Decision& decision) const {
  std::set<policy::JobId> named;
  for (const Grant& grant : decision.grants) {
    SCALAI_RETURN_IF_ERROR(check(grant));
    if (!named.insert(grant.job).second)
      return failed(fmt::format("the policy decides twice about job \"{}\"", name(grant.job)));
  }
  return absl::OkStatus();
}

bool Placer::keeps(const Grant& grant) const {
  const std::vector<DeviceId>& now = standing_.granted[static_cast<size_t>(grant.job.value)];
  if (now.empty() || static_cast<int>(now.size()) != grant.gpus || view_.type_of(now.front()) != grant.type)
    return false;
  if (grant.hosts.empty()) return true;
  std::vector<policy::HostShare> hosts = grant.hosts;
  std::sort(hosts.begin(), hosts.end());
  return hosts == view_.placement_of(now).hosts;
}

std::vector<DeviceId> Placer::home(const Grant& grant) const {
  std::vector<DeviceId> devices;
  for (const DeviceId device : standing_.home[static_cast<size_t>(grant.job.value)]) {
    if (usable(device) && taken_.count(device) == 0 && view_.type_of(device) == grant.type) devices.push_back(device);
  }
  return devices;
}

std::vector<DeviceId> Placer::others(const Grant& grant, bool idle_only) const {
  const std::vector<DeviceId>& own = standing_.home[static_cast<size_t>(grant.job.value)];
  std::vector<DeviceId> devices;
  for (int i = 0; i < cluster_.device_count(); ++i) {
    const DeviceId device(i);
    const bool free = usable(device) && taken_.count(device) == 0 && view_.type_of(device) == grant.type;
    if (!free || std::find(own.begin(), own.end(), device) != own.end()) continue;
    if (!idle_only || idle(device)) devices.push_back(device);
  }
  return devices;
}

void Placer::take(const Grant& grant, std::vector<DeviceId> devices) {
  taken_.insert(devices.begin(), devices.end());
  granted_[static_cast<size_t>(grant.job.value)] = std::move(devices);
}

absl::Status Placer::on_hosts(const Grant& grant) {
  std::vector<DeviceId> order = home(grant);
  const std::vector<DeviceId> idle_ones = others(grant, /*idle_only=*/true);
  order.insert(order.end(), idle_ones.begin(), idle_ones.end());
  for (const DeviceId device : others(grant, /*idle_only=*/false)) {
    if (!idle(device)) order.push_back(device);
  }
  std::map<HostId, int> left;
  for (const policy::HostShare& share : grant.hosts) left[share.host] = share.gpus;
  std::vector<DeviceId> devices;
  for (const DeviceId device : order) {
    const auto wanted = left.find(cluster_.host_of(device));
    if (wanted == left.end() || wanted->second == 0) continue;
    --wanted->second;
    devices.push_back(device);
  }
  for (const auto& [host, missing] : left) {
    if (missing > 0)
      return failed(fmt::format("the policy gives job \"{}\" {} GPUs on h{} that are down or given to others",
                                name(grant.job), missing, host.value));
  }
  take(grant, std::move(devices));
  return absl::OkStatus();
}

using ByHost = std::vector<std::pair<HostId, std::vector<DeviceId>>>;

// Of its own, on as few hosts as possible: those with most of them, of equal ones the first in rank order.
std::vector<DeviceId> survivors(const std::vector<DeviceId>& own, size_t count, const cluster::Cluster& cluster) {
  ByHost hosts = cluster::devices_by_host(own, cluster);
  std::stable_sort(hosts.begin(), hosts.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::set<DeviceId> kept;
  for (const auto& entry : hosts) {
    for (const DeviceId device : entry.second) {
      if (kept.size() < count) kept.insert(device);
    }
  }
  std::vector<DeviceId> in_order;
  std::copy_if(own.begin(), own.end(), std::back_inserter(in_order),
               [&](DeviceId device) { return kept.count(device) != 0; });
  return in_order;
}

// More for a job that is on the hosts of `own`: those hosts first, then the smallest gap that is enough, else the
// largest.
std::vector<DeviceId> more(const std::vector<DeviceId>& own, const std::vector<DeviceId>& free, size_t count,
                           const cluster::Cluster& cluster) {
  const ByHost near = cluster::devices_by_host(own, cluster);
  ByHost hosts = cluster::devices_by_host(free, cluster);
  std::vector<DeviceId> chosen;
  const auto take_from = [&](std::vector<DeviceId>& devices) {
    const size_t part = std::min(devices.size(), count - chosen.size());
    chosen.insert(chosen.end(), devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(part));
    devices.clear();
  };
  for (const auto& mine : near) {
    for (auto& entry : hosts) {
      if (entry.first == mine.first) take_from(entry.second);
    }
  }
  while (chosen.size() < count) {
    const size_t missing = count - chosen.size();
    const auto better = [&](const auto& a, const auto& b) {
      const bool a_enough = a.second.size() >= missing, b_enough = b.second.size() >= missing;
      if (a_enough != b_enough) return a_enough;
      return a_enough ? a.second.size() < b.second.size() : a.second.size() > b.second.size();
    };
    const auto best = std::min_element(hosts.begin(), hosts.end(), better);
    SCALAI_CHECK(best != hosts.end() && !best->second.empty(), "enough are free");
    take_from(best->second);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

absl::Status Placer::anywhere(const Grant& grant) {
  const auto count = static_cast<size_t>(grant.gpus);
  std::vector<DeviceId> devices = home(grant);
  if (devices.size() >= count) {
    take(grant, survivors(devices, count, cluster_));
    return absl::OkStatus();
  }
  std::vector<DeviceId> free = others(grant, /*idle_only=*/true);
  if (devices.size() + free.size() < count) free = others(grant, /*idle_only=*/false);
  if (devices.size() + free.size() < count) {
    return failed(fmt::format("the policy gives job \"{}\" {} GPUs of type {}: {} are left", name(grant.job),
                              grant.gpus, view_.fleet().types[static_cast<size_t>(grant.type.value)].name,
                              devices.size() + free.size()));
  }
  const std::vector<DeviceId> added = more(devices, free, count - devices.size(), cluster_);
  devices.insert(devices.end(), added.begin(), added.end());
  take(grant, std::move(devices));
  return absl::OkStatus();
}

absl::Status Placer::place(const std::vector<Grant>& grants) {
  std::vector<const Grant*> order;
  for (const Grant& grant : grants) {
    if (keeps(grant)) continue;
    granted_[static_cast<size_t>(grant.job.value)].clear();
    if (grant.gpus > 0) order.push_back(&grant);
  }
  for (const std::vector<DeviceId>& devices : granted_) taken_.insert(devices.begin(), devices.end());
  // Named hosts leave no choice; then who has something to keep; then large ones, which find gaps hardest.
  const auto rank = [&](const Grant* grant) {
    const bool homeless = standing_.home[static_cast<size_t>(grant->job.value)].empty();
    return std::tuple(grant->hosts.empty(), homeless, homeless ? -grant->gpus : 0, grant->job.value);
  };
  std::sort(order.begin(), order.end(), [&](const Grant* a, const Grant* b) { return rank(a) < rank(b); });
  for (const Grant* grant : order) SCALAI_RETURN_IF_ERROR(grant->hosts.empty() ? anywhere(*grant) : on_hosts(*grant));
  return absl::OkStatus();
}

std::vector<Wish> Placer::changes() const {
  std::vector<Wish> wishes;
  for (size_t job = 0; job < granted_.size(); ++job) {
    if (granted_[job] != standing_.granted[job])
      wishes.push_back({.job = static_cast<int>(job), .devices = granted_[job]});
  }
  return wishes;
}

}  // namespace

absl::StatusOr<std::vector<Wish>> wishes_of(const policy::Decision& decision, const PolicyView& view,
                                            const cluster::Cluster& cluster, const Standing& standing) {
  Placer placer(view, cluster, standing);
  SCALAI_RETURN_IF_ERROR(placer.check(decision));
  SCALAI_RETURN_IF_ERROR(placer.place(decision.grants));
  return placer.changes();
}

}  // namespace scalai::control
