#pragma once
// What elastic order policies have in common: how many GPUs a job can use, how fast it is then, and which GPU type it
// sits on.

#include <map>
#include <vector>

#include "ptc/sched/policy.h"

namespace scalai::sched::order {

// A job that wants GPUs of one pool. Shares are indices in `sizes`; -1 = none.
struct Claim {
  JobId id;
  std::vector<int> sizes;     // that it can use, ascending: within [min_gpus, max_gpus], throughput known; never empty
  std::vector<double> rates;  // iterations a second with each
  double work_left = 0;
  int share = -1;

  int gpus() const { return share < 0 ? 0 : sizes[static_cast<size_t>(share)]; }
  double seconds(int at) const { return work_left / rates[static_cast<size_t>(at)]; }
  bool grows() const { return share + 1 < static_cast<int>(sizes.size()); }
  int step() const { return sizes[static_cast<size_t>(share + 1)] - gpus(); }  // GPUs to the next size
};

// Keeps each job on one GPU type: at first the one that can hold it with the least asked for per GPU; another when its
// own has too few GPUs left for it.
class Pools {
 public:
  // Claims of all active jobs by type (with share = -1), by job.
  std::vector<std::vector<Claim>> claims(const View& view);
  // Jobs without a share go to the first other type that has enough left for their smallest.
  void rehome(const View& view, std::vector<int> left, std::vector<std::vector<Claim>>* pools);

 private:
  GpuType choose(const View& view, JobId id, const std::vector<double>& asked) const;
  std::map<JobId, GpuType> type_of_;
};

// The claim of a job on a type; no sizes if it cannot run there now.
Claim claim_on(const View& view, JobId id, GpuType type);

// What changes for the jobs of a pool.
void grant_shares(const View& view, GpuType type, const std::vector<Claim>& claims, std::vector<Grant>* grants);

}  // namespace scalai::sched::order
