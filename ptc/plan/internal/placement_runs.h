#pragma once
// Runs: ranks that stay together on a host, and the places that may take them. How the rules of placement.h cut the
// ranks.

#include <cstdint>
#include <optional>
#include <vector>

#include "ptc/plan/internal/placement_change.h"

namespace scalai::plan {

// A host, or the hosts of a rack or NVLink domain, and their devices that may take new ranks, in the order of the
// candidates.
struct Site {
  std::vector<HostId> hosts;
  std::vector<DeviceId> devices;
};

struct Runs {
  struct Place {
    int32_t site = 0;      // index; several places may share it
    int32_t length = 0;    // longest run that it takes
    int32_t capacity = 1;  // runs that it takes
  };
  std::vector<std::vector<int32_t>> runs;
  std::vector<Place> places;
  // Of each run, the domain (RankedChange::domain_of) whose sites may take it. Empty: any.
  std::vector<int> domain_of_run;
};

// Ranks in `order`, `length` at a time (the last run may be shorter), as many to a site as fit. Nothing when they do
// not.
std::optional<Runs> equal_runs(const std::vector<int32_t>& order, const std::vector<Site>& sites, int32_t length);

// Ranks in `order` fill the sites in turn, at most `most` on each and whole groups of `group` where that works. Nothing
// when they do not fit.
std::optional<Runs> filling_runs(const std::vector<int32_t>& order, const std::vector<Site>& sites, int32_t most,
                                 int32_t group);

// Lengths for equal_runs, longest first: as many whole groups as the largest site takes, and the divisors of that which
// are whole groups.
std::vector<int32_t> run_lengths(const std::vector<Site>& sites, int32_t ranks, int32_t group);

// Data-parallel replicas one after the other, each in rank order.
std::vector<int32_t> by_replica(const RankedChange& change);

// The site (index) of each run: the assignment that saves the most bytes from coming from elsewhere as if every run
// were alone on its site, then, where that is quickly known, the most bytes from moving inside sites. Nothing when the
// runs do not fit.
std::optional<std::vector<int32_t>> assign_runs(const RankedChange& change, const Runs& runs,
                                                const std::vector<Site>& sites);

// A part of the new state as runs want it; parts alike are one.
struct RunPart {
  std::vector<int32_t> wanting;   // runs, ascending
  std::vector<int32_t> deriving;  // of these: runs with a rank that derives it
  std::vector<int32_t> holding;   // sites (indices), ascending
  int64_t bytes = 0;              // for each site that lacks it
};
std::vector<RunPart> parts_of(const RankedChange& change, const Runs& runs, const std::vector<Site>& sites);

}  // namespace scalai::plan
