#pragma once
// A change before anybody has said which device takes which rank: the geometry is worked out once, by ranks, and every
// placement is then priced from sets alone.

#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ptc/plan/internal/assignment.h"
#include "ptc/plan/internal/difference.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/planner.h"

namespace scalai::plan {

// What a placement costs, the most important first. Every device counts as reading from storage for itself: who passes
// on what it has read is the planner's choice.
struct PlacementCost {
  int64_t in_one_domain = 0;  // with a SpreadRule: bytes of boxes with replicas that all share one domain
  int64_t cross_host = 0;     // as lower_bounds().given_placement has it
  int64_t moved = 0;          // between devices, or from storage
  int64_t same_device = 0;    // copied on its device
  friend auto operator<=>(const PlacementCost&, const PlacementCost&) = default;
};

class RankedChange {
 public:
  // Of the collection `input.to` only device_of_rank is not looked at. The input outlives this.
  explicit RankedChange(const PlannerInput& input, SpreadRule spread = SpreadRule::kNone);

  // A part of the new state: who wants it, and where it is now.
  struct Part {
    int32_t holders = -1;  // set of old devices; −1: none holds it
    int32_t wanting = 0;   // set of ranks
    int32_t masters = -1;  // set of ranks that can derive it; −1: none
    int32_t holding = -1;  // list of hosts that hold it or a copy; −1: none does
    int64_t wire = 0;      // bytes of one fetch from a device or a copy
    int64_t storage = 0;   // … from storage
    int64_t copied = 0;    // bytes of one copy on a device that holds it in another box
  };

  PlacementCost cost(const std::vector<DeviceId>& device_of_rank) const;
  // For each of these ranks on each of these devices: bytes it need not fetch there; then, fewer copied.
  std::vector<std::vector<internal::Gain>> gains_of(const std::vector<int32_t>& ranks,
                                                    const std::vector<DeviceId>& devices) const;

  // Bytes moved if no rank were on a device that holds anything.
  int64_t most_moved() const;
  // PlacementCost::in_one_domain; 0 without a spread rule.
  int64_t in_one_domain(const std::vector<HostId>& host_of_rank) const;

  int32_t ranks() const { return static_cast<int32_t>(parts_of_rank_.size()); }
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<int32_t>& ranks_of(int32_t set) const { return rank_sets_[static_cast<size_t>(set)]; }  // ascending
  const std::vector<HostId>& hosts_of(int32_t list) const { return host_lists_[static_cast<size_t>(list)]; }
  // The fastest axis when that is tensor parallelism: ranks that follow one another and belong on one host. Else 1.
  int tensor_group() const { return tensor_group_; }
  int replicas() const { return replicas_; }  // data-parallel coordinates
  int replica_of(int32_t rank) const { return replica_of_[static_cast<size_t>(rank)]; }
  // Host itself, or its rack, as the spread rule says.
  int domain_of(HostId host) const;

 private:
  void add_parts(const internal::Difference& difference);
  void add_replicas(const internal::Difference& difference);
  int32_t holding_list(const internal::Difference& difference, int32_t holders, int32_t copies);
  HostId host_of(DeviceId device) const { return host_of_[static_cast<size_t>(device.value)]; }

  const PlannerInput input_;
  const SpreadRule spread_;
  std::vector<HostId> host_of_;
  std::vector<Part> parts_;                         // by holders
  std::vector<std::vector<DeviceId>> device_sets_;  // ascending
  std::vector<std::vector<int32_t>> rank_sets_;     // ascending
  std::vector<std::vector<HostId>> host_lists_;     // ascending
  std::map<std::vector<HostId>, int32_t> known_lists_;
  std::vector<std::vector<int32_t>> parts_of_rank_;
  std::vector<std::pair<int32_t, int64_t>> replicated_;  // sets of ranks with several replicas, and their bytes
  int tensor_group_ = 1, replicas_ = 1;
  std::vector<int> replica_of_;
};

}  // namespace scalai::plan
