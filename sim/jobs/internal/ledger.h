#pragma once
// What GPUs were used for and cost, and how free ones were scattered over hosts, summed up over time: O(types,
// different numbers of free GPUs on partly used hosts) an instant, whatever runs.

#include <algorithm>
#include <map>
#include <vector>

#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/host_ledger.h"
#include "ptc/run/policy/outcome.h"

namespace scalai::jobs::internal {

// Now. GPUs that two jobs share count once: as training if either trains.
struct Use {
  int held = 0;
  int training = 0;
  int running_jobs = 0;
  int waiting_jobs = 0;
};

class Ledger {
 public:
  Ledger(const policy::Fleet& fleet, size_t samples);

  // What finish() sums up begins at `from_s` and ends at `to_s`; the default is all. close(): it ends now.
  void set_window(double from_s, double to_s) { from_s_ = from_s, to_s_ = to_s; }
  void close() { to_s_ = std::min(to_s_, now_s_); }

  // Jobs have no places, so nothing is said of free GPUs.
  void without_places() { places_ = false; }

  // Time goes on to `to_s`; things were as in `use` and `hosts` until then.
  void advance(double to_s, const Use& use, const policy::HostLedger& hosts);
  // Keeps a sample of how things are now; every second one goes when there are too many, and from then on every second
  // comes.
  void sample(const Use& use, const policy::HostLedger& hosts);

  void set_price(policy::GpuType type, double per_gpu_hour) { price_[static_cast<size_t>(type.value)] = per_gpu_hour; }
  double price(policy::GpuType type) const { return price_[static_cast<size_t>(type.value)]; }
  // US dollars that one GPU of a type has cost since the start, if it was up.
  double paid_per_gpu(policy::GpuType type) const { return paid_[static_cast<size_t>(type.value)]; }
  // Integrals since the start: jobs in the system, GPUs up (x seconds; GPUs count as the fleet's do, here and below).
  double job_s() const { return job_s_; }
  double up_gpu_s() const { return up_gpu_s_; }
  // Integrals since the start: free GPUs (`HostLedger::free`), and of these the ones on hosts where less is free than
  // min(gpus, GPUs of the host).
  double free_gpu_s() const { return free_gpu_s_; }
  double unusable_gpu_s(int gpus) const { return below(scattered_gpu_s_, gpus); }
  // Whether now is within the window, its end included.
  bool counts() const { return now_s_ >= from_s_ && now_s_ <= to_s_; }

  // `jobs_of_size`: jobs of the workload by the GPUs they ask for.
  void finish(const std::map<int, int64_t>& jobs_of_size, policy::Outcome* outcome) const;

 private:
  static double below(const std::vector<double>& scattered, int gpus);

  double now_s_ = 0;
  double from_s_ = 0, to_s_ = policy::kNever;
  double up_gpu_s_ = 0, job_s_ = 0;                                                   // since the start
  double counted_up_gpu_s_ = 0, training_gpu_s_ = 0, changing_gpu_s_ = 0, cost_ = 0;  // in the window
  // The same of free GPUs; scattered ones by the number that their host has free.
  double free_gpu_s_ = 0, counted_free_gpu_s_ = 0;
  std::vector<double> scattered_gpu_s_, counted_scattered_gpu_s_;
  bool places_ = true;
  double gpus_each_ = 1;  // whole GPUs: 1 / per_gpu of the fleet
  std::vector<double> price_, paid_;
  size_t limit_;
  int64_t stride_ = 1, skipped_ = 0;
  std::vector<policy::UseSample> samples_;
};

}  // namespace scalai::jobs::internal
