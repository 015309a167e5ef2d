#include "ptc/run/control/internal/condition.h"

#include <algorithm>
#include <limits>

namespace scalai::control {

void Condition::fail(const scenario::Fail& what) {
  for (const DeviceId device : what.devices) repaired_at_s_.erase(device);  // this failure comes after any repair
  for (const std::string& link : what.links) links_[link] = 0;
}

std::set<DeviceId> Condition::lose(const std::set<DeviceId>& devices, double failed_at_s, bool usable) {
  std::set<DeviceId> down;
  for (const DeviceId device : devices) {
    if (usable && !dead(device)) repaired_at_s_[device] = failed_at_s;
    const auto repaired = repaired_at_s_.find(device);
    if (repaired == repaired_at_s_.end() || repaired->second < failed_at_s) dead_.insert(device);
    if (dead(device)) down.insert(device);
  }
  return down;
}

void Condition::repair(const scenario::Repair& what, double now_s) {
  for (const DeviceId device : what.devices) {
    dead_.erase(device);
    draining_.erase(device);
    deadline_s_.erase(device);
    speed_.erase(device);
    repaired_at_s_[device] = now_s;
  }
  for (const std::string& link : what.links) {
    links_.erase(link);
    cutting_.erase(link);
  }
  find_islands();
}

bool Condition::cut_off(const scenario::Fail& what) {
  bool any = false;
  for (const std::string& link : what.links) {
    const auto now = links_.find(link);
    if (now == links_.end() || now->second > 0) continue;
    cutting_.insert(link);
    any = true;
  }
  find_islands();
  return any;
}

void Condition::find_islands() {
  islands_ = cutting_.empty() ? cluster::Islands{} : cluster::islands_of(cluster_, cutting_);
}

int Condition::home_of(const std::vector<DeviceId>& devices) const {
  if (!any_cut_off()) return 0;
  const auto island_of = [&](HostId host) { return islands_.of_host[at(host.value)]; };
  if (!devices.empty()) {
    const int first = island_of(cluster_.host_of(devices.front()));
    if (std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return on(first, device); })) return first;
  }
  std::vector<int64_t> up(islands_.reach_storage.size());
  for (int i = 0; i < cluster_.device_count(); ++i)
    up[at(island_of(cluster_.host_of(DeviceId(i))))] += usable(DeviceId(i)) ? 1 : 0;
  int best = 0;
  for (int island = 1; at(island) < up.size(); ++island) {
    const auto rank = [&](int one) { return std::pair(reaches_storage(one), up[at(one)]); };
    if (rank(island) > rank(best)) best = island;
  }
  return best;
}

bool Condition::on(int island, HostId host) const {
  return !any_cut_off() || islands_.of_host[at(host.value)] == island;
}

scenario::Degrade Condition::degrade(scenario::Degrade what) {
  std::erase_if(what.links, [&](const std::string& link) {
    const auto now = links_.find(link);
    return now != links_.end() && now->second == 0;
  });
  const auto note = [&](auto& shares, const auto& name) {
    if (what.factor == 1)
      shares.erase(name);
    else
      shares[name] = what.factor;
  };
  for (const DeviceId device : what.devices) note(speed_, device);
  for (const std::string& link : what.links) note(links_, link);
  return what;
}

bool Condition::lost_since(DeviceId device, double made_s) const {
  const auto repaired = repaired_at_s_.find(device);
  return dead(device) || repaired == repaired_at_s_.end() || made_s <= repaired->second;
}

void Condition::drain(const std::vector<DeviceId>& devices, std::optional<double> deadline_s) {
  draining_.insert(devices.begin(), devices.end());
  if (!deadline_s) return;
  for (const DeviceId device : devices) {
    const auto known = deadline_s_.emplace(device, *deadline_s).first;
    known->second = std::min(known->second, *deadline_s);
  }
}

std::set<DeviceId> Condition::leaving(const std::vector<DeviceId>& devices) const {
  std::set<DeviceId> found;
  for (const DeviceId device : devices) {
    if (!dead(device) && deadline_s_.contains(device)) found.insert(device);
  }
  return found;
}

double Condition::deadline_of(const std::set<DeviceId>& leaving) const {
  double first_s = std::numeric_limits<double>::infinity();
  for (const DeviceId device : leaving) first_s = std::min(first_s, deadline_s_.at(device));
  return first_s;
}

bool Condition::memory_leaves(HostId host) const {
  const std::vector<DeviceId> devices = cluster_.devices_of(host);
  return std::all_of(devices.begin(), devices.end(),
                     [&](DeviceId device) { return dead(device) || deadline_s_.contains(device); });
}

std::set<HostId> Condition::hosts_down() const {
  std::set<HostId> down;
  for (const DeviceId device : dead_) {
    const HostId host = cluster_.host_of(device);
    const std::vector<DeviceId> devices = cluster_.devices_of(host);
    if (std::all_of(devices.begin(), devices.end(), [&](DeviceId one) { return dead(one); })) down.insert(host);
  }
  return down;
}

}  // namespace scalai::control
