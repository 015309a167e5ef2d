#include "ptc/run/policy/policies/goodput/elasticflow.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/goodput/packing.h"
#include "ptc/run/policy/policies/goodput/promises.h"

namespace scalai::policy {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// Powers of two between the job's bounds (its least number if there is none), as long as more GPUs make it faster.
std::vector<Level> levels_of(const View& view, const Job& job, GpuType type, double work_done) {
  const int least = std::max(job.min_gpus, 1), most = std::max(job.max_gpus, least);
  const int all = view.fleet().gpus(type);
  std::vector<int> sizes;
  for (int gpus = 1; gpus <= std::min(most, all); gpus *= 2) {
    if (gpus >= least) sizes.push_back(gpus);
  }
  if (sizes.empty() && least <= all) sizes.push_back(least);
  std::vector<Level> levels;
  for (const int gpus : sizes) {
    const double per_s = view.throughput().rate(job, type, gpus, work_done).per_s;
    if (per_s > (levels.empty() ? 0 : levels.back().per_s)) levels.push_back({gpus, per_s});
  }
  return levels;
}

struct Admitted {
  GpuType type;
  double deadline_s = kNever;  // of the promise; kNever: none was given
  JobPlan plan;
  // Of the instant decided on:
  std::vector<Level> levels;
  Progress progress;
  double work = 0;
  double change_s = 0;
  size_t level = 0;  // GPUs from now on: levels[level - 1], 0 = none

  PlanRequest request() const { return {work, deadline_s, progress.placement.gpus(), change_s, levels}; }
  int gpus() const { return level == 0 ? 0 : levels[level - 1].gpus; }
};

class ElasticFlow final : public Policy {
 public:
  explicit ElasticFlow(const ElasticFlowSettings& settings) : settings_(settings) {}

  PolicyTraits traits() const override {
    return {.preemptive = true, .elastic = true, .needs_durations = true, .heterogeneous = false};
  }

  absl::Status begin(const View& /*view*/) override {
    return settings_.slot_s > 0 ? absl::OkStatus() : invalid("elasticflow: a slot must be above 0: slot=60s");
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> /*events*/) override {
    Decision decision;
    look(view);
    for (size_t type = 0; type < view.fleet().types.size(); ++type) {
      keep_promises(view, GpuType(static_cast<int64_t>(type)));
    }
    admit(view, &decision);
    for (size_t type = 0; type < view.fleet().types.size(); ++type) {
      share(view, GpuType(static_cast<int64_t>(type)), &decision);
    }
    decision.wake_at_s = next_change(view.now_s());
    return decision;
  }

  std::string remarks() const override {
    return fmt::format("elasticflow: {} jobs admitted with a deadline, {} refused, {} promises given up", promised_,
                       refused_, given_up_);
  }

 private:
  // Those that ended leave; the others' state of now.
  void look(const View& view) {
    std::map<JobId, Admitted> kept;
    for (const JobId id : view.active()) {
      const auto it = jobs_.find(id);
      if (it == jobs_.end()) continue;
      refresh(view, id, &it->second);
      kept.emplace(id, std::move(it->second));
    }
    jobs_ = std::move(kept);
  }

  static void refresh(const View& view, JobId id, Admitted* job) {
    const Job& spec = view.job(id);
    job->progress = view.progress(id);
    job->work = std::max(spec.work - job->progress.work_done, 0.0);
    job->levels = levels_of(view, spec, job->type, job->progress.work_done);
    job->change_s = job->levels.empty() ? 0 : view.change_cost_s(id, job->levels.back().gpus);
    job->level = 0;
  }

  std::vector<JobId> by_deadline(GpuType type) const {
    std::vector<JobId> ids;
    for (const auto& [id, job] : jobs_) {
      if (job.type == type && job.deadline_s < kNever) ids.push_back(id);
    }
    std::stable_sort(ids.begin(), ids.end(),
                     [&](JobId a, JobId b) { return jobs_.at(a).deadline_s < jobs_.at(b).deadline_s; });
    return ids;
  }

  // Plans for all, the earliest deadline first. False: they do not fit; nothing changed.
  bool plan_all(const View& view, GpuType type) {
    FreeGpus free(view.now_s(), view.capacity(type));
    std::vector<std::pair<JobId, JobPlan>> plans;
    for (const JobId id : by_deadline(type)) {
      auto plan = minimum_share(jobs_.at(id).request(), free, settings_.slot_s);
      if (!plan.has_value()) return false;
      free.take(*plan);
      plans.emplace_back(id, *std::move(plan));
    }
    for (auto& [id, plan] : plans) jobs_.at(id).plan = std::move(plan);
    return true;
  }

  // The plans made before are still good if they fit and end in time.
  bool plans_hold(const View& view, GpuType type) const {
    FreeGpus free(view.now_s(), view.capacity(type));
    for (const JobId id : by_deadline(type)) {
      const Admitted& job = jobs_.at(id);
      free.take(rest(job.plan, view.now_s()));
      if (plan_end(job.request(), job.plan, view.now_s()) > job.deadline_s * (1 + 1e-9)) return false;
    }
    return free.least() >= 0;
  }

  static JobPlan rest(const JobPlan& plan, double now_s) {
    JobPlan rest;
    for (const PlanSegment& segment : plan) {
      if (segment.to_s > now_s) rest.push_back({std::max(segment.from_s, now_s), segment.to_s, segment.gpus});
    }
    return rest;
  }

  // Planning anew may fail where the old plans hold: a job that is ahead takes fewer GPUs for longer.
  void keep_promises(const View& view, GpuType type) {
    if (plan_all(view, type) || plans_hold(view, type)) return;
    FreeGpus free(view.now_s(), view.capacity(type));
    for (const JobId id : by_deadline(type)) {
      Admitted& job = jobs_.at(id);
      auto plan = minimum_share(job.request(), free, settings_.slot_s);
      if (!plan.has_value()) {
        if (late_.insert_or_assign(id, true).second) ++given_up_;
        plan = best_share(job.request(), free, settings_.slot_s);
      }
      free.take(*plan);
      job.plan = *std::move(plan);
    }
  }

  void admit(const View& view, Decision* decision) {
    for (const JobId id : view.active()) {
      if (jobs_.contains(id)) continue;
      if (!place(view, id)) {
        decision->refused.push_back(id);
        ++refused_;
      }
    }
  }

  // On the first type that can keep its promise, or just run it.
  bool place(const View& view, JobId id) {
    const Job& spec = view.job(id);
    for (const bool promise : {true, false}) {
      if (promise ? spec.deadline_s >= kNever : spec.deadline_s < kNever && settings_.admission) continue;
      for (size_t type = 0; type < view.fleet().types.size(); ++type) {
        Admitted job;
        job.type = GpuType(static_cast<int64_t>(type));
        job.deadline_s = promise ? spec.deadline_s : kNever;
        refresh(view, id, &job);
        if (job.levels.empty()) continue;
        jobs_.emplace(id, std::move(job));
        if (!promise || promised(view, id)) return true;
        jobs_.erase(id);
      }
    }
    return false;
  }

  bool promised(const View& view, JobId id) {
    Admitted& job = jobs_.at(id);
    if (!plan_all(view, job.type)) {
      FreeGpus free(view.now_s(), view.capacity(job.type));
      for (const JobId other : by_deadline(job.type)) {
        if (other != id) free.take(rest(jobs_.at(other).plan, view.now_s()));
      }
      auto plan = free.least() < 0 ? std::nullopt : minimum_share(job.request(), free, settings_.slot_s);
      if (!plan.has_value()) return false;
      job.plan = *std::move(plan);
    }
    ++promised_;
    return true;
  }

  void share(const View& view, GpuType type, Decision* decision) {
    int free = view.capacity(type);
    std::vector<JobId> order = by_deadline(type);
    for (const JobId id : order) {
      Admitted& job = jobs_.at(id);
      const int planned = gpus_at(job.plan, view.now_s());
      while (job.level < job.levels.size() && job.levels[job.level].gpus <= planned) ++job.level;
      free -= job.gpus();
    }
    for (const auto& [id, job] : jobs_) {
      if (job.type == type && job.deadline_s >= kNever) order.push_back(id);
    }
    spread(order, &free);
    place_all(view, type, order, decision);
  }

  static int gpus_at(const JobPlan& plan, double now_s) {
    for (const PlanSegment& segment : plan) {
      if (segment.from_s <= now_s && now_s < segment.to_s) return segment.gpus;
    }
    return 0;
  }

  // What promises leave: what changing over would waste is kept, then nobody waits who need not, then the step that
  // adds the least GPU time for each GPU.
  void spread(const std::vector<JobId>& order, int* free) {
    for (const JobId id : order) {
      Admitted& job = jobs_.at(id);
      while (job.change_s > 0 && job.gpus() < job.progress.placement.gpus() && step_fits(job, *free)) rise(&job, free);
    }
    for (const JobId id : order) {
      Admitted& job = jobs_.at(id);
      if (job.level == 0 && step_fits(job, *free)) rise(&job, free);
    }
    for (;;) {
      Admitted* best = nullptr;
      double most = kNone;
      for (const JobId id : order) {
        Admitted& job = jobs_.at(id);
        if (job.level == 0 || !step_fits(job, *free)) continue;
        const Level& now = job.levels[job.level - 1];
        const Level& next = job.levels[job.level];
        const double saved = job.work * (now.gpus / now.per_s - next.gpus / next.per_s) / (next.gpus - now.gpus);
        if (saved > most) {
          most = saved;
          best = &job;
        }
      }
      if (best == nullptr) return;
      rise(best, free);
    }
  }

  // A step up that is a change must leave time for it and for the one back.
  static bool step_fits(const Admitted& job, int free) {
    if (job.level >= job.levels.size() || job.levels[job.level].gpus - job.gpus() > free) return false;
    if (job.change_s == 0 || job.deadline_s >= kNever) return true;
    if (job.levels[job.level].gpus <= job.progress.placement.gpus()) return true;
    return plan_end(job.request(), job.plan, job.plan.front().from_s) + 2 * job.change_s <= job.deadline_s;
  }

  static void rise(Admitted* job, int* free) {
    *free += job->gpus();
    ++job->level;
    *free -= job->gpus();
  }

  void place_all(const View& view, GpuType type, const std::vector<JobId>& order, Decision* decision) const {
    std::vector<int> capacity;
    for (size_t h = 0; h < view.fleet().hosts.size(); ++h) {
      capacity.push_back(view.fleet().hosts[h].type == type ? view.capacity(HostId(static_cast<int64_t>(h))) : 0);
    }
    std::vector<PackRequest> requests;
    for (const JobId id : order) {
      const Admitted& job = jobs_.at(id);
      requests.push_back({job.gpus(), job.progress.placement.hosts});
    }
    const auto shares = pack(capacity, requests);
    for (size_t k = 0; k < order.size(); ++k) {
      if (shares[k] == requests[k].now) continue;
      decision->grants.push_back(
          Grant{.job = order[k], .type = type, .gpus = requests[k].gpus, .hosts = shares[k], .beside = {}});
    }
  }

  // When a plan says another number next.
  double next_change(double now_s) const {
    double next = kNever;
    for (const auto& [id, job] : jobs_) {
      for (const PlanSegment& segment : job.plan) {
        if (segment.from_s > now_s) next = std::min(next, segment.from_s);
      }
    }
    return next;
  }

  ElasticFlowSettings settings_;
  std::map<JobId, Admitted> jobs_;
  std::map<JobId, bool> late_;  // whose promise was given up
  int64_t promised_ = 0, refused_ = 0, given_up_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_elasticflow(const ElasticFlowSettings& settings) {
  return std::make_unique<ElasticFlow>(settings);
}

}  // namespace scalai::policy
