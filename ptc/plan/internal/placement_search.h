#pragma once
// Which run of ranks sits on which host (here every site is one host), looked at together: what one host fetches for
// two runs it fetches once, which an assignment of single runs does not see.

#include <optional>
#include <vector>

#include "ptc/plan/internal/placement_runs.h"

namespace scalai::plan {

// Bytes across hosts, kept up to date as runs come and go.
class HostTraffic {
 public:
  HostTraffic(const std::vector<RunPart>& parts, size_t runs, size_t hosts);

  void add(size_t run, size_t host) { change(run, host, 1); }
  void remove(size_t run, size_t host) { change(run, host, -1); }
  int64_t bytes() const { return plain_ + derivable_; }
  // Of parts that nobody derives; never falls when a run is added.
  int64_t plain_bytes() const { return plain_; }

 private:
  struct Use {
    size_t part = 0;
    bool derives = false;
  };
  struct Count {
    int16_t fetching = 0, deriving = 0;
    bool holds = false;
  };
  void change(size_t run, size_t host, int by);

  const std::vector<RunPart>& parts_;
  const size_t hosts_;
  std::vector<std::vector<Use>> uses_;  // by run
  std::vector<Count> counts_;           // part × host
  int64_t plain_ = 0, derivable_ = 0;
};

// Swaps runs of one length between hosts, and moves runs to hosts with room, while that saves bytes across hosts. Does
// nothing where there are more runs or parts than it looks at.
inline constexpr size_t kMostSwappedRuns = 512;
void improve(const RankedChange& change, const Runs& runs, const std::vector<Site>& sites,
             std::vector<int32_t>& host_of_run);

// In how many ways ranks may be given to hosts; at most `limit` + 1.
int64_t ways_to_place(int32_t ranks, const std::vector<Site>& sites, int64_t limit);

// The devices of each rank, by host: the assignment inside each host that moves least, then copies least.
std::vector<DeviceId> settle(const RankedChange& change, const std::vector<Site>& sites,
                             const std::vector<int32_t>& host_of_rank);

// Looks at all ways; without `spread`, PlacementCost::in_one_domain counts as 0. Result: the best devices of each rank,
// if they cost less than `least`.
std::optional<std::vector<DeviceId>> best_of_all_ways(const RankedChange& change, const std::vector<Site>& sites,
                                                      const PlacementCost& least, bool spread);

}  // namespace scalai::plan
