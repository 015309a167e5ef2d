#include "ptc/run/policy/policies/spot/market.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::policy::spot {

absl::StatusOr<GpuType> on_demand_type(const View& view, const std::string& name) {
  const std::vector<TypeSpec>& types = view.fleet().types;
  size_t dearest = 0;
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    if (!name.empty() && types[i].name == name) return GpuType(static_cast<int64_t>(i));
    names.push_back(types[i].name);
    const double price = view.price(GpuType(static_cast<int64_t>(i)));
    if (price > view.price(GpuType(static_cast<int64_t>(dearest)))) dearest = i;
  }
  if (types.empty()) return invalid("spot policies need a fleet with GPUs");
  if (!name.empty()) {
    return invalid(
        fmt::format("on-demand={}: the fleet has no such GPU type; it has {}", name, fmt::join(names, ", ")));
  }
  return GpuType(static_cast<int64_t>(dearest));
}

Market::Market(const View& view, GpuType on_demand) : view_(view), on_demand_(on_demand) {
  for (size_t i = 0; i < view.fleet().types.size(); ++i) {
    free_.push_back(view.capacity(GpuType(static_cast<int64_t>(i))));
  }
  for (const JobId id :
       view.active()) {  // on hosts some of which are under notice: it may stay, and keeps what is left
    const Placement placement = view.progress(id).placement;
    if (placement.empty() || holds(id)) continue;
    for (const HostShare& share : placement.hosts) {
      if (view.capacity(share.host) > 0) free_[static_cast<size_t>(placement.type.value)] -= share.gpus;
    }
  }
}

bool Market::is_spot(GpuType type) const { return free_.size() == 1 || type != on_demand_; }

double Market::rate(JobId id, GpuType type) const {
  const Job& job = view_.job(id);
  return view_.throughput().rate(job, type, job.gpus, view_.progress(id).work_done).per_s;
}

bool Market::serves(const Job& job, GpuType type) const {
  return view_.fleet().gpus(type) >= job.gpus && view_.throughput().rate(job, type, job.gpus, 0).per_s > 0;
}

double Market::usd_per_work(JobId id, GpuType type) const {
  const double per_s = rate(id, type);
  if (per_s <= 0) return kNever;
  return view_.price(type) * view_.job(id).gpus / 3600 / per_s;
}

GpuType Market::cheapest_spot(JobId id) const {
  GpuType best;
  double lowest = kNever;
  for (size_t i = 0; i < free_.size(); ++i) {
    const GpuType type(static_cast<int64_t>(i));
    if (!is_spot(type) || free(type) < view_.job(id).gpus) continue;
    const double usd = usd_per_work(id, type);
    if (usd < lowest) {
      lowest = usd;
      best = type;
    }
  }
  return best;
}

bool Market::holds(JobId id) const {
  const Progress progress = view_.progress(id);
  if (progress.placement.empty()) return false;
  return std::all_of(progress.placement.hosts.begin(), progress.placement.hosts.end(),
                     [this](const HostShare& share) { return view_.capacity(share.host) > 0; });
}

Clock clock_of(const View& view, const Market& market, JobId id) {
  const Job& job = view.job(id);
  // A job that cannot run on demand is measured on what it can run on.
  double per_s = market.rate(id, market.on_demand());
  for (size_t i = 0; per_s <= 0 && i < view.fleet().types.size(); ++i) {
    per_s = market.rate(id, GpuType(static_cast<int64_t>(i)));
  }
  Clock clock{.elapsed_s = view.now_s() - job.submit_s,
              .total_s = job.deadline_s - job.submit_s,
              .work_s = 0,
              .done_s = 0,
              .changeover_s = view.change_cost_s(id, job.gpus)};
  if (per_s <= 0) return clock;
  clock.work_s = job.work / per_s;
  clock.done_s = view.progress(id).work_done / per_s;
  return clock;
}

}  // namespace scalai::policy::spot
