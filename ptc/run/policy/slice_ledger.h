#pragma once
// GPUs that are cut in slices (ptc/run/policy/slices.h): which slices are taken, and where a job goes. A part of a GPU
// goes to the fullest GPU that has a place for it (ties: the first), and begins where most other profiles keep a place
// (ties: the lowest). Whole GPUs go to as few hosts as possible: the host with the fewest wholly free GPUs that has
// enough, else the ones with most. Jobs are not moved to make room. O(different occupations of a GPU, GPUs of the job)
// a placement.

#include <array>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "ptc/run/policy/fleet.h"

namespace scalai::policy {

class SliceLedger {
 public:
  // Hosts are closed at first. CHECK: the fleet counts in slices.
  explicit SliceLedger(const Fleet& fleet);

  // Whether jobs may be placed on a host. Those on it stay.
  void open(HostId host);
  void close(HostId host);

  // `slices`: those of a profile, or whole GPUs.
  bool fits(int slices) const;
  // CHECK: fits(slices). By host and GPU.
  std::vector<Slice> place(int slices);
  void give(std::span<const Slice> slices);

 private:
  struct Gpu {
    HostId host;
    uint8_t taken = 0;  // memory slices
    int used = 0;       // compute slices
  };
  struct Host {
    size_t first = 0, gpus = 0;  // in gpus_
    int whole = 0;               // wholly free ones
    bool open = false;
  };

  Host& host_of(HostId id) { return hosts_[static_cast<size_t>(id.value)]; }
  void set(size_t gpu, uint8_t taken, int used);
  void list(size_t gpu, bool in);
  Slice place_part(int slices);
  void place_whole(int gpus, std::vector<Slice>* placed);

  std::vector<Gpu> gpus_;
  std::vector<Host> hosts_;
  // Of open hosts: GPUs by the memory slices taken; hosts by their wholly free GPUs (from 1), and the sum of these.
  std::array<std::set<size_t>, 256> by_taken_;
  std::map<int, std::set<HostId>> by_whole_;
  int whole_ = 0;
};

}  // namespace scalai::policy
