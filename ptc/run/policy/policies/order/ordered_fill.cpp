#include <algorithm>
#include <set>

#include "ptc/run/policy/policies/order/ordered.h"

namespace scalai::policy::order {
namespace {

size_t index(GpuType type) { return static_cast<size_t>(type.value); }

int usable(const View& view, JobId id, GpuType type, int free, bool elastic) {
  const Job& job = view.job(id);
  const double done = view.progress(id).work_done;
  if (!elastic) return free >= job.gpus && view.throughput().rate(job, type, job.gpus, done).per_s > 0 ? job.gpus : 0;
  for (int gpus = std::min(free, job.max_gpus); gpus >= job.min_gpus; --gpus) {
    if (view.throughput().rate(job, type, gpus, done).per_s > 0) return gpus;
  }
  return 0;
}

// The type a job goes to and how many it gets there; none if it fits nowhere.
Grant choose(const View& view, JobId id, const std::vector<int>& free, const OrderedOptions& options) {
  const Progress progress = view.progress(id);
  Grant best{.job = id, .type = GpuType(), .gpus = 0, .hosts = {}, .beside = JobId()};
  double best_rate = 0;
  for (size_t t = 0; t < free.size(); ++t) {
    const GpuType type(static_cast<int64_t>(t));
    const int gpus = usable(view, id, type, free[t], options.elastic);
    if (gpus == 0) continue;
    const double rate = view.throughput().rate(view.job(id), type, gpus, progress.work_done).per_s;
    const bool stays = !progress.placement.empty() && progress.placement.type == type;
    if (best.gpus > 0 && !stays && !(options.fastest && rate > best_rate)) continue;
    best.type = type;
    best.gpus = gpus;
    best_rate = rate;
    if (stays) break;
  }
  return best;
}

// Counts the GPUs of jobs that keep theirs, those that two share once; those under notice are not in the capacity.
// Returns the jobs that have some of these.
std::vector<JobId> take_kept(const View& view, const std::vector<JobId>& keep, std::vector<int>* free) {
  std::vector<JobId> threatened;
  std::set<JobId> counted;  // with the job beside them
  for (const JobId id : keep) {
    const Progress progress = view.progress(id);
    if (counted.count(id) > 0) continue;
    if (progress.beside.valid()) counted.insert(progress.beside);
    const int safe = safe_gpus(view, progress.placement);
    (*free)[index(progress.placement.type)] -= safe;
    if (safe < progress.placement.gpus() && !progress.beside.valid()) threatened.push_back(id);
  }
  return threatened;
}

// A job on hosts under notice moves to others if there is room for it.
void move_off(const View& view, JobId id, std::vector<int>* free, std::vector<Grant>* grants) {
  const Placement placement = view.progress(id).placement;
  const int gpus = placement.gpus();
  const int more = gpus - safe_gpus(view, placement);
  if ((*free)[index(placement.type)] < more) return;
  (*free)[index(placement.type)] -= more;
  grants->push_back(Grant{.job = id, .type = placement.type, .gpus = gpus, .hosts = {}, .beside = JobId()});
}

}  // namespace

int safe_gpus(const View& view, const Placement& placement) {
  int gpus = 0;
  for (const HostShare& share : placement.hosts) gpus += view.capacity(share.host) > 0 ? share.gpus : 0;
  return gpus;
}

std::vector<Grant> fill_all(const View& view, const FillRequest& request) {
  std::vector<int> free;
  for (size_t t = 0; t < view.fleet().types.size(); ++t) {
    free.push_back(view.capacity(GpuType(static_cast<int64_t>(t))));
  }
  std::vector<Grant> grants;
  const FillMode mode = request.options.mode;
  std::vector<JobId> queue = request.ids;
  std::vector<JobId> keep = request.keep;
  if (mode != FillMode::kPreemptive) {
    const auto waits = std::stable_partition(queue.begin(), queue.end(),
                                             [&](JobId id) { return !view.progress(id).placement.empty(); });
    keep.insert(keep.end(), queue.begin(), waits);
    queue.erase(queue.begin(), waits);
  }
  for (const JobId id : take_kept(view, keep, &free)) move_off(view, id, &free, &grants);
  for (const JobId id : queue) {
    Grant grant = choose(view, id, free, request.options);
    if (grant.gpus > 0) {
      free[index(grant.type)] -= grant.gpus;
      grants.push_back(grant);
      continue;
    }
    if (mode == FillMode::kStrict) break;
    if (!view.progress(id).placement.empty()) grants.push_back(grant);  // it makes way
  }
  return grants;
}

double remaining_s(const View& view, JobId id) {
  const Job& job = view.job(id);
  const Progress progress = view.progress(id);
  double rate = 0;
  if (!progress.placement.empty()) {
    rate = view.throughput().rate(job, progress.placement.type, job.gpus, progress.work_done).per_s;
  }
  for (size_t t = 0; t < view.fleet().types.size() && progress.placement.empty(); ++t) {
    const GpuType type(static_cast<int64_t>(t));
    rate = std::max(rate, view.throughput().rate(job, type, job.gpus, progress.work_done).per_s);
  }
  return rate > 0 ? (job.work - progress.work_done) / rate : kNever;
}

}  // namespace scalai::policy::order
