#pragma once
// The condition of a cluster's devices and links: dead, to be left, repaired, slower than nominal. It changes with the
// scenario's script and with the losses that a runtime reports; nothing here decides. One thread.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptc/base/ids.h"
#include "ptc/cluster/cluster.h"
#include "ptc/cluster/islands.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::control {

class Condition {
 public:
  // Everything is up and nominal. The cluster outlives this.
  explicit Condition(const cluster::Cluster& cluster) : cluster_(cluster) {}

  // ---- changes
  void set_absent(const std::vector<DeviceId>& devices) { dead_.insert(devices.begin(), devices.end()); }
  // The failure itself: links are down at once. Devices are dead when their loss is noticed (lose).
  void fail(const scenario::Fail& what);
  // Returns those of the devices that are dead now: a repair after the failure has brought the others back. `usable`:
  // none is dead, as if all had been repaired at the time of the failure.
  std::set<DeviceId> lose(const std::set<DeviceId>& devices, double failed_at_s, bool usable = false);
  // The failure of links is noticed: jobs leave what those cut off that are still down. False: none is.
  bool cut_off(const scenario::Fail& what);
  // Devices and links are nominal again, and not to be left any more.
  void repair(const scenario::Repair& what, double now_s);
  // Returns what takes effect: a link that is down stays down until its repair.
  scenario::Degrade degrade(scenario::Degrade what);
  // Jobs are to leave the devices; `deadline_s`: by then, when they are taken.
  void drain(const std::vector<DeviceId>& devices, std::optional<double> deadline_s = std::nullopt);

  // ---- queries
  bool dead(DeviceId device) const { return dead_.contains(device); }
  bool draining(DeviceId device) const { return draining_.contains(device); }
  bool usable(DeviceId device) const { return !dead(device) && !draining(device); }
  // Of these the ones that live and will be taken at a known time; and the first such time, infinity without any.
  std::set<DeviceId> leaving(const std::vector<DeviceId>& devices) const;
  double deadline_of(const std::set<DeviceId>& leaving) const;
  // The host's memory goes with its last device.
  bool memory_leaves(HostId host) const;
  // The device no longer holds what was put there at `made_s`. A failure that was repaired concerns only what was there
  // before the repair.
  bool lost_since(DeviceId device, double made_s) const;
  // Hosts without a living device: their memory is lost, too.
  std::set<HostId> hosts_down() const;

  // ---- what links cut off; while `any_cut_off` is false, nothing
  bool any_cut_off() const { return !islands_.of_host.empty(); }
  // The island on which a job goes on that is, or was, on these devices: theirs, if they are in one. Else of those that
  // reach the storage, if any does, the one with the most devices that are up; of equal ones the first.
  int home_of(const std::vector<DeviceId>& devices) const;
  bool on(int island, HostId host) const;
  bool on(int island, DeviceId device) const { return on(island, cluster_.host_of(device)); }
  bool reaches_storage(int island) const { return !any_cut_off() || islands_.reach_storage[at(island)]; }

  const std::map<DeviceId, double>& speed() const { return speed_; }  // of degraded devices, share of nominal
  const std::map<std::string, double>& links() const {
    return links_;
  }  // of degraded links, share of nominal; 0 = down
  const cluster::Cluster& cluster() const { return cluster_; }

 private:
  static size_t at(int island) { return static_cast<size_t>(island); }
  void find_islands();

  const cluster::Cluster& cluster_;
  std::set<DeviceId> dead_, draining_;
  std::map<DeviceId, double> deadline_s_;  // of draining ones that will be taken
  std::map<DeviceId, double> repaired_at_s_;
  std::map<DeviceId, double> speed_;
  std::map<std::string, double> links_;
  std::set<std::string> cutting_;  // links that are down and cut hosts off
  cluster::Islands islands_;       // empty without them
};

}  // namespace scalai::control
