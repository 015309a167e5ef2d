#include "ptc/run/control/internal/policy_placer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::control {
namespace {

using policy::Grant;

class Placer {
 public:
  Placer(const PolicyView& view, const cluster::Cluster& cluster, const Standing& standing)
      : view_(view), cluster_(cluster), standing_(standing), granted_(standing.granted), ledger_(view.ledger()) {}

  absl::Status place(const policy::Grants& grants);
  std::vector<Wish> changes() const;

 private:
  using Shares = std::map<HostId, int>;  // GPUs that are still to be chosen

  std::vector<DeviceId>& granted(const Grant& grant) { return granted_[index(grant)]; }
  static size_t index(const Grant& grant) { return static_cast<size_t>(grant.job.value); }
  bool usable(DeviceId device) const { return standing_.usable[static_cast<size_t>(device.value)] != 0; }
  bool held(DeviceId device) const { return standing_.held[static_cast<size_t>(device.value)] != 0; }
  void release(const policy::Grants& grants);
  void choose(const std::vector<DeviceId>& from, Shares& shares, std::vector<DeviceId>& devices);

  const PolicyView& view_;
  const cluster::Cluster& cluster_;
  const Standing& standing_;
  std::vector<std::vector<DeviceId>> granted_;
  policy::HostLedger ledger_;
  std::vector<const Grant*> moves_;
  std::set<DeviceId> taken_;
};

// All that move leave their GPUs before any is placed.
void Placer::release(const policy::Grants& grants) {
  for (const Grant* grant : grants) {
    std::vector<DeviceId>& devices = granted(*grant);
    if (policy::same_gpus(*grant, view_.placement_of(devices))) continue;
    devices.clear();
    if (grant->gpus > 0) moves_.push_back(grant);
  }
  for (const std::vector<DeviceId>& devices : granted_) {
    std::vector<DeviceId> kept;
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(kept), [&](DeviceId d) { return usable(d); });
    const absl::Status taken = ledger_.take(view_.placement_of(kept));
    SCALAI_CHECK(taken.ok(), message_of(taken));
    taken_.insert(devices.begin(), devices.end());
  }
}

// Of these devices in their order, as many as a job is to have on each host.
void Placer::choose(const std::vector<DeviceId>& from, Shares& shares, std::vector<DeviceId>& devices) {
  for (const DeviceId device : from) {
    const auto share = shares.find(cluster_.host_of(device));
    if (share == shares.end() || share->second == 0 || !usable(device) || !taken_.insert(device).second) continue;
    --share->second;
    devices.push_back(device);
  }
}

absl::Status Placer::place(const policy::Grants& grants) {
  release(grants);
  std::sort(moves_.begin(), moves_.end(), [](const Grant* a, const Grant* b) { return policy::placed_before(*a, *b); });
  std::vector<Shares> shares;
  for (const Grant* grant : moves_) {
    const std::vector<DeviceId>& home = standing_.home[index(*grant)];
    SCALAI_ASSIGN_OR_RETURN(const policy::Placement placement,
                            policy::place_grant(*grant, view_, view_.placement_of(home), ledger_));
    Shares& left = shares.emplace_back();
    for (const policy::HostShare& share : placement.hosts) left[share.host] = share.gpus;
  }
  // Each its own before anybody else takes them.
  for (size_t k = 0; k < moves_.size(); ++k) choose(standing_.home[index(*moves_[k])], shares[k], granted(*moves_[k]));
  for (size_t k = 0; k < moves_.size(); ++k) {
    std::vector<DeviceId> others, chosen;
    for (const auto& [host, gpus] : shares[k]) {
      const std::vector<DeviceId> there = cluster_.devices_of(host);
      others.insert(others.end(), there.begin(), there.end());
    }
    std::stable_sort(others.begin(), others.end(), [&](DeviceId a, DeviceId b) { return held(a) < held(b); });
    choose(others, shares[k], chosen);
    std::sort(chosen.begin(), chosen.end());
    granted(*moves_[k]).insert(granted(*moves_[k]).end(), chosen.begin(), chosen.end());
  }
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

absl::StatusOr<std::vector<Wish>> wishes_of(const policy::Grants& grants, const PolicyView& view,
                                            const cluster::Cluster& cluster, const Standing& standing) {
  Placer placer(view, cluster, standing);
  SCALAI_RETURN_IF_ERROR(placer.place(grants));
  return placer.changes();
}

}  // namespace scalai::control
