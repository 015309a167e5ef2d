#pragma once
// Common parts of elastic order policies: the usable numbers of GPUs of a job, its rate on them, and its GPU type. One
// thread.

#include <map>
#include <vector>

#include "ptc/run/policy/policy.h"

namespace scalai::policy::order {

// A job's claim on one pool. Shares are indices in `sizes`; −1 = none.
struct Claim {
  JobId id;
  std::vector<int> sizes;     // usable numbers, ascending: within [min_gpus, max_gpus], with a known rate; never empty
  std::vector<double> rates;  // iterations per second of each size
  double work_left = 0;
  int share = -1;

  int gpus() const { return share < 0 ? 0 : sizes[static_cast<size_t>(share)]; }
  double seconds(int at) const { return work_left / rates[static_cast<size_t>(at)]; }
  bool grows() const { return share + 1 < static_cast<int>(sizes.size()); }
  int step() const { return sizes[static_cast<size_t>(int64_t{share} + 1)] - gpus(); }  // GPUs to the next size
};

// Keeps each job on one GPU type: at first the type with the lowest load (requested GPUs / capacity, the job included)
// that can run it; another one if its own has too few GPUs left for it.
class Pools {
 public:
  // Claims of all active jobs (with share = −1) by type, then by job.
  std::vector<std::vector<Claim>> claims(const View& view);
  // Moves jobs without a share to the first other type with enough GPUs left for their smallest size.
  void rehome(const View& view, std::vector<int> left, std::vector<std::vector<Claim>>* pools);

 private:
  GpuType choose(const View& view, JobId id, const std::vector<double>& asked) const;
  std::map<JobId, GpuType> type_of_;
};

// The claim of a job on a type; without sizes if it cannot run there now.
Claim claim_on(const View& view, JobId id, GpuType type);

// Appends the grants of the jobs of a pool whose shares change.
void grant_shares(const View& view, GpuType type, const std::vector<Claim>& claims, std::vector<Grant>* grants);

}  // namespace scalai::policy::order
