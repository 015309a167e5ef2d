#pragma once
// What spot policies look at: which GPU types are spot and which is on demand, what is free in one decision, and how
// much time a job has. One decision, one thread.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/policy.h"

namespace scalai::sched::spot {

// The on-demand type: the one named, else the dearest per GPU (ties: the first). A fleet of one type is both, so that
// every policy can serve it. Error: no such type in the fleet (with those it has).
absl::StatusOr<GpuType> on_demand_type(const View& view, const std::string& name);

// GPUs that no job has been given in this decision yet. Hosts under notice count for no one.
class Market {
 public:
  Market(const View& view, GpuType on_demand);

  GpuType on_demand() const { return on_demand_; }
  bool is_spot(GpuType type) const;
  int free(GpuType type) const { return free_[static_cast<size_t>(type.value)]; }
  void take(GpuType type, int gpus) { free_[static_cast<size_t>(type.value)] -= gpus; }

  // Whether the type could ever serve the job: enough GPUs in the fleet, and the job runs on it.
  bool serves(const Job& job, GpuType type) const;
  // The spot type with room on which work costs least; none = no room anywhere.
  GpuType cheapest_spot(JobId id) const;
  // US dollars for one iteration; kNever where the job cannot run.
  double usd_per_work(JobId id, GpuType type) const;
  double rate(JobId id, GpuType type) const;  // iterations a second on the GPUs asked for

  // Whether a job still has its GPUs, none of them under notice.
  bool holds(JobId id) const;

 private:
  const View& view_;
  GpuType on_demand_;
  std::vector<int> free_;  // by type
};

// How a job stands against its deadline, in seconds of training on demand. (Can't Be Late, NSDI'24: C0, R0, e(t), d.)
struct Clock {
  double elapsed_s = 0;     // since submission
  double total_s = 0;       // R0: from submission to the deadline
  double work_s = 0;        // C0: the whole job on demand
  double done_s = 0;        // of it
  double changeover_s = 0;  // d
  bool has_deadline() const { return total_s < kNever; }
  double left_s() const { return work_s - done_s; }
  // Time that may still be wasted before only on demand keeps the deadline; < 0: too late for certainty.
  double slack_s() const { return total_s - elapsed_s - left_s() - 2 * changeover_s; }
  double expected_s(double ahead_s = 0) const { return (elapsed_s + ahead_s) * work_s / total_s; }  // e(t)
};
Clock clock_of(const View& view, const Market& market, JobId id);

inline constexpr double kInstant_s = 1e-3;  // closer than this is now
inline constexpr double kGlance_s = 1;      // between two looks at a job that trains, but not evenly
inline constexpr double kEven = 1e-9;       // rates this close (relative) are the same

}  // namespace scalai::sched::spot
