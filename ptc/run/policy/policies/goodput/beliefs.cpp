#include "ptc/run/policy/policies/goodput/beliefs.h"

#include <algorithm>

namespace scalai::policy {

const Beliefs::Belief& Beliefs::none() {
  static const Belief kNone;
  return kNone;
}

const Beliefs::Belief& Beliefs::of(JobId job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? none() : it->second;
}

int Beliefs::scaled_to(JobId job, GpuType type) const {
  const Belief& belief = of(job);
  const auto it = belief.by_type.find(type);
  return it == belief.by_type.end() ? 0 : it->second;
}

void Beliefs::observe(const View& view) {
  source_ = fitted_ ? dynamic_cast<const GoodputSource*>(&view.throughput()) : nullptr;
  std::map<JobId, Belief> kept;
  for (const JobId id : view.active()) {
    Belief& belief = kept[id];
    if (const auto it = jobs_.find(id); it != jobs_.end()) belief = std::move(it->second);
    const Progress progress = view.progress(id);
    const int gpus = progress.placement.gpus();
    // It must have trained there, not only changed over.
    if (gpus == 0 || view.now_s() - progress.last_change_s <= view.change_cost_s(id, gpus)) continue;
    belief.scaled_to = std::max(belief.scaled_to, gpus);
    int& of_type = belief.by_type[progress.placement.type];
    of_type = std::max(of_type, gpus);
    if (source_ != nullptr) learn(view, *source_, id, progress, &belief);
  }
  jobs_ = std::move(kept);
}

void Beliefs::learn(const View& view, const GoodputSource& source, JobId job, const Progress& progress,
                    Belief* belief) {
  const Job& spec = view.job(job);
  const Application* app = source.application(spec);
  if (app == nullptr) return;
  const BatchCut cut = source.batch(spec, progress.placement, progress.work_done);
  std::vector<int> gpus;
  for (const HostShare& share : progress.placement.hosts) gpus.push_back(share.gpus);
  const auto time = app->step_time(gpus, cut.local);
  if (!time.has_value()) return;
  const int total = progress.placement.gpus();
  belief->noise = app->noise(total * cut.local * (cut.accumulation + 1), app->epoch_at(progress.work_done));
  const StepObservation now = {static_cast<int>(gpus.size()), total, cut.local, time->step_s - time->sync_s,
                               time->step_s};
  const bool known = std::any_of(belief->seen.begin(), belief->seen.end(), [&](const StepObservation& one) {
    return one.hosts == now.hosts && one.gpus == now.gpus && one.local == now.local;
  });
  if (known) return;
  belief->seen.push_back(now);
  belief->model = fit_step_model(belief->seen);
}

double Beliefs::source_goodput(const View& view, JobId job, GpuType type, int hosts, int gpus) {
  Placement placement;
  placement.type = type;
  for (int h = 0; h < hosts; ++h) {
    placement.hosts.push_back({HostId(h), gpus / hosts + (h >= hosts - gpus % hosts ? 1 : 0)});
  }
  return view.throughput().placed_rate(view.job(job), placement, view.progress(job).work_done).per_s;
}

double Beliefs::goodput(const View& view, JobId job, GpuType type, int hosts, int gpus) const {
  const Application* app = source_ == nullptr ? nullptr : source_->application(view.job(job));
  if (app == nullptr) return source_goodput(view, job, type, hosts, gpus);
  const Belief& belief = of(job);
  if (belief.seen.empty()) return gpus;
  const auto [cuts, fresh] = cuts_.try_emplace({app, gpus});
  if (fresh) cuts->second = adaptive_cuts(*app, gpus);
  return believed_goodput(belief.model, belief.noise, app->initial_batch(), cuts->second, hosts, gpus);
}

double Beliefs::near_goodput(const View& view, JobId job, GpuType type, int gpus) const {
  if (source_ != nullptr && source_->application(view.job(job)) != nullptr) return goodput(view, job, type, 1, gpus);
  return view.throughput().rate(view.job(job), type, gpus, view.progress(job).work_done).per_s;
}

}  // namespace scalai::policy
