#pragma once
// The GPUs of a fleet: which hosts are up or under notice, what is free on each, and where a job goes. Placement takes
// as few hosts as possible: one host if the job fits on one (its own former ones first, then the fullest that has
// room), else the emptiest hosts and the fullest that has room for the rest. Ties by host. O(GPUs of the job) a
// placement, whatever the fleet's size.

#include <map>
#include <optional>
#include <vector>

#include "ptc/run/policy/bitmap.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/slice_ledger.h"

namespace scalai::policy {

class HostLedger {
 public:
  HostLedger(const Fleet& fleet, const Availability* availability);

  // GPUs up and not under notice, and of those the free ones.
  int capacity(GpuType type) const { return capacity_[index(type)]; }
  int free(GpuType type) const { return free_in_type_[index(type)]; }
  int capacity(HostId host) const;
  bool up(HostId host) const { return hosts_[index(host)].up; }
  bool noticed(HostId host) const { return hosts_[index(host)].noticed; }
  double last_down_s(HostId host) const { return hosts_[index(host)].last_down_s; }
  // Free GPUs of hosts that are up and not under notice; of these the ones on hosts that are partly used, by the number
  // that the host has free. Zeros are left out.
  int free() const { return free_; }
  const std::map<int, int>& scattered() const { return scattered_; }
  int up_gpus() const { return up_gpus_; }
  int up_gpus(GpuType type) const { return up_in_type_[index(type)]; }
  int widest() const { return widest_; }  // GPUs of the largest host, up or down
  // The most GPUs of one type that are up at any time.
  int largest_ever() const { return largest_ever_; }

  void set_up(HostId host);
  void set_noticed(HostId host);
  // Nothing may be placed on it any more (detach its jobs first).
  void set_down(HostId host, double now_s);

  // Whether place() finds them. With slices enough may be free, but not in one piece.
  bool fits(GpuType type, int gpus) const { return gpus <= free(type) && (!slices_ || slices_->fits(gpus)); }
  // Takes `gpus` GPUs of a type where they lie best; fits(type, gpus). `own`: where the job was.
  Placement place(GpuType type, int gpus, const Placement& own);
  // Takes exactly these GPUs; not with slices (CHECK). Error: Internal names the host that is down or full; nothing is
  // taken then.
  absl::Status take(const Placement& placement);
  void give(const Placement& placement);

 private:
  struct Host {
    GpuType type;
    int gpus = 0;
    int free = 0;
    bool up = true;
    bool noticed = false;
    double last_down_s = -1;
  };

  static size_t index(GpuType type) { return static_cast<size_t>(type.value); }
  static size_t index(HostId host) { return static_cast<size_t>(host.value); }
  bool open(const Host& host) const { return host.up && !host.noticed; }
  void set_free(HostId host, int free);  // keeps the sets in step
  void enlist(HostId host);
  void delist(HostId host);
  void count_free(const Host& host, int sign);
  Placement place_slices(GpuType type, int gpus);
  HostId best_fit(GpuType type, int gpus, const Placement& own) const;
  HostId emptiest(GpuType type, const Placement& own) const;

  std::vector<Host> hosts_;
  // by type, then by number of free GPUs (from 1): open hosts that have so many
  std::vector<std::vector<Bitmap>> by_free_;
  std::vector<int> capacity_, free_in_type_, up_in_type_;
  std::optional<SliceLedger> slices_;  // of fleets whose GPUs are cut in slices
  std::map<int, int> scattered_;
  int free_ = 0;
  int up_gpus_ = 0;
  int widest_ = 0;
  int largest_ever_ = 0;
};

}  // namespace scalai::policy
