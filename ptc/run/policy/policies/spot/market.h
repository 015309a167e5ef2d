#pragma once
// The market of one decision of a spot policy: spot and on-demand GPU types, free GPUs, and the time left of a job. One
// thread.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy::spot {

// The on-demand type: the named one, else the most expensive per GPU (ties: the first). In a fleet of one type it is
// both spot and on demand, so every policy can serve it. InvalidArgument: the fleet has no such type (the message has
// its types) or no types.
absl::StatusOr<GpuType> on_demand_type(const View& view, const std::string& name);

// GPUs without a job in this decision. Hosts under notice do not count. Keeps a reference to `view`: use it during one
// decide() only.
class Market {
 public:
  Market(const View& view, GpuType on_demand);

  GpuType on_demand() const { return on_demand_; }
  bool is_spot(GpuType type) const;
  int free(GpuType type) const { return free_[static_cast<size_t>(type.value)]; }
  void take(GpuType type, int gpus) { free_[static_cast<size_t>(type.value)] -= gpus; }

  // True if the type could ever serve the job: the fleet has enough GPUs, and the job runs on it.
  bool serves(const Job& job, GpuType type) const;
  // The spot type with room and the lowest cost of work; invalid = none has room.
  GpuType cheapest_spot(JobId id) const;
  // US dollars for one iteration; kNever if the job cannot run.
  double usd_per_work(JobId id, GpuType type) const;
  double rate(JobId id, GpuType type) const;  // iterations per second on the requested GPUs

  // True if a job has GPUs, none of them under notice.
  bool holds(JobId id) const;

 private:
  const View& view_;
  GpuType on_demand_;
  std::vector<int> free_;  // by type
};

// Times of a job against its deadline, in seconds of training on demand. (Can't Be Late, NSDI'24: C0, R0, e(t), d.)
struct Clock {
  double elapsed_s = 0;     // since submission
  double total_s = 0;       // R0: from submission to the deadline
  double work_s = 0;        // C0: the whole job on demand
  double done_s = 0;        // done part of work_s
  double changeover_s = 0;  // d
  bool has_deadline() const { return total_s < kNever; }
  double left_s() const { return work_s - done_s; }
  // Time to spare before only on demand meets the deadline; < 0: too late for certainty.
  double slack_s() const { return total_s - elapsed_s - left_s() - 2 * changeover_s; }
  double expected_s(double ahead_s = 0) const { return (elapsed_s + ahead_s) * work_s / total_s; }  // e(t)
};
Clock clock_of(const View& view, const Market& market, JobId id);

inline constexpr double kInstant_s = 1e-3;  // times closer than this are equal
inline constexpr double kGlance_s = 1;      // interval of checks of a job with an uneven rate
inline constexpr double kEven = 1e-9;       // rates this close (relative) are equal

}  // namespace scalai::policy::spot
