#pragma once
// Placement α′: which device takes which new rank, so that least has to move: fewest bytes across hosts, then fewest
// bytes between devices, then fewest copied on a device. The rule says what may be tried:
//
//   identity  nothing: devices in the order given.
//   hosts     Runs of ranks that follow one another go to hosts: as long as the largest host takes, or a divisor of
//             that, or whatever each host takes where hosts are uneven. A tensor-parallel group (the fastest axis) is
//             never cut while there is another way. So a job may fill hosts or stay on a part of each, whatever moves
//             less. Hosts that GPU links join (NVLink domains) count as one host here and below.
//   free      That, and every rank by itself.
//
// Which runs sit on which host is an assignment of greatest savings, exact where hosts take one run each, else improved
// by swaps; inside a host, ranks go to devices by an exact assignment. With `free` all ways to give ranks to hosts are
// looked at where there are at most kMostWays of them (8 ranks on 4 hosts of 2 have 2,520; 16 on 2 hosts of 8 have
// 12,870): then no placement on these devices costs less. Beyond, ranks by themselves are tried for jobs of up to
// kMostFreeRanks. In every case the cheapest of all that was tried wins, so that free <= hosts <= identity.
//
// A spread rule comes before the bytes: as little state as possible of which all data-parallel replicas share one
// domain (host or rack). Ranks are then also tried replica by replica, each domain taking fewer than all replicas of a
// box. Deterministic; ties go to rank order, then to the longest runs.

#include <vector>

#include "ptc/plan/planner.h"

namespace scalai::plan {

inline constexpr int64_t kMostWays = 100'000;
inline constexpr int kMostFreeRanks = 1024;

enum class PlacementRule : uint8_t {
  kIdentity,  // rank order
  kHosts,     // runs of ranks fill hosts, as in rank order, so that a tensor-parallel group stays in one
  kFree,      // any rank on any device
};
enum class SpreadRule : uint8_t {
  kNone,
  kHost,  // data-parallel replicas of a box on different hosts, as far as there are hosts
  kRack,  // … in different racks
};

struct PlacementOptions {
  PlacementRule rule = PlacementRule::kIdentity;
  SpreadRule spread = SpreadRule::kNone;

  // Ranks may leave rank order: only the set of devices is asked for.
  bool places() const { return rule != PlacementRule::kIdentity || spread != SpreadRule::kNone; }
};

struct Placement {
  std::vector<DeviceId> device_of_rank;
  // What the spread rule costs beyond the best placement without it, and what it leaves: bytes of state with several
  // data-parallel replicas, all of them in one domain, with the rule and without.
  struct Spread {
    int64_t cross_host = 0, moved = 0;  // moved may be negative where cross_host is not
    int64_t bytes_in_one_domain = 0, bytes_in_one_domain_without = 0;
  };
  Spread spread;
};

// `input.to.device_of_rank` are the devices in rank order: the first of `candidates`. More candidates than ranks leave
// the choice of survivors free. Where the collections do not hold the same tensors, or their devices are outside the
// cluster, the answer is rank order; make_plan says what is wrong.
Placement best_placement(const PlannerInput& input, const PlacementOptions& options,
                         const std::vector<DeviceId>& candidates);
// Only its devices.
std::vector<DeviceId> place(const PlannerInput& input, const PlacementOptions& options,
                            const std::vector<DeviceId>& candidates);

}  // namespace scalai::plan
