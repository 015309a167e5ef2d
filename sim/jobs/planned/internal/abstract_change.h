#pragma once
// A change with its hosts renumbered: the cluster of those numbers, and both sides' devices in it.

#include <set>
#include <string>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "sim/jobs/planned/change_plan.h"

namespace scalai::jobs::internal {

class AbstractChange {
 public:
  AbstractChange(const cluster::Cluster& cluster, const ChangePlanner::Question& question, HostId hub);

  const cluster::Cluster& cluster() const { return abstract_; }
  const std::vector<HostId>& hosts() const { return hosts_; }             // real host of each number; invalid = a gap
  std::vector<DeviceId> from_devices() const { return numbered(from_); }  // in rank order
  std::vector<DeviceId> candidates() const;                               // by number
  std::set<DeviceId> lost_devices() const;
  HostId hub() const { return hub_; }
  // Equal for changes of one shape.
  std::string key(const ChangePlanner::Question& question) const;

  Place place_of(DeviceId abstract) const;

 private:
  void number_hosts(const ChangePlanner::Question& question, HostId hub);
  void build_cluster();
  DeviceId number_of(DeviceId real) const;
  std::vector<DeviceId> numbered(const std::vector<DeviceId>& real) const;

  const cluster::Cluster& cluster_;
  std::vector<DeviceId> from_, to_;  // real
  std::set<HostId> lost_;            // real
  std::vector<HostId> hosts_;
  std::map<HostId, int> number_of_host_;
  cluster::Cluster abstract_;
  HostId hub_;
};

// Devices in rank order, ranks of data-parallel replicas exchanged so that replicas which lost devices come last, those
// that lost alike together. The same devices where replicas hold different things.
std::vector<DeviceId> canonical_ranks(const HeldState& state, const std::set<HostId>& lost,
                                      const cluster::Cluster& cluster);

}  // namespace scalai::jobs::internal
