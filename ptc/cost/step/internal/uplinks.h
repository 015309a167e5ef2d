#pragma once
// What a fabric that is narrower than the NICs leaves of them: how much of what ranks send at once crosses the uplinks
// of each switch, against what these can carry. Pure; any thread.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/hardware.h"

namespace scalai::step::internal {

// Where a rank sends from.
struct Seat {
  HostId host;
  int64_t domain = 0;  // GPU links join it, so nothing leaves the NICs within
};

class Uplinks {
 public:
  // `seats`: of all ranks. `nic_bytes_per_s`: a rank's share of its host's NICs, per direction; 0 = unlimited.
  Uplinks(const cluster::Cluster& cluster, std::vector<Seat> seats, double nic_bytes_per_s);

  // Share of the NICs' rate that is left, 0 < share <= 1, when all these groups (ranks, in order) communicate at once.
  // Rings: a group passes from host to host in the order of its ranks, so of the hosts below a switch only those send
  // through its uplinks whose next one lies elsewhere; each sends with the NICs of `per_host` ranks. Direct: each rank
  // sends to all others alike.
  double share_of_rings(const std::vector<std::vector<int>>& groups, int per_host) const;
  double share_of_direct(const std::vector<std::vector<int>>& groups) const;
  // Bytes per second of each message, when these ranks send to those at once; 0 = unlimited.
  double rate_of_messages(const std::vector<std::pair<int, int>>& from_to) const;

 private:
  struct Level {
    std::vector<double> bytes_per_s;              // of the uplinks of each switch; 0 = unlimited
    std::function<int(const HostId&)> switch_of;  // of a host
    bool crosses(const Seat& from, const Seat& to) const {
      return from.domain != to.domain && (top || switch_of(from.host) != switch_of(to.host));
    }
    bool top = false;  // all messages cross it
  };
  double share(const std::function<void(const Level&, std::vector<double>&)>& load) const;

  std::vector<Seat> seats_;
  double nic_bytes_per_s_;
  std::vector<Level> levels_;
};

}  // namespace scalai::step::internal
