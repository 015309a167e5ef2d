#include "ptc/run/policy/policies/order/ordered.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ptc/base/status.h"

namespace scalai::policy::order {
namespace {

class OrderedPolicy : public Policy {
 public:
  OrderedPolicy(std::unique_ptr<Order> order, OrderedOptions options, PolicyTraits traits)
      : order_(std::move(order)), options_(options), traits_(traits), fill_(options.mode) {}

  PolicyTraits traits() const override { return traits_; }

  absl::Status begin(const View& view) override {
    stepwise_ = view.fleet().types.size() == 1 && !options_.elastic && options_.pack_at <= 0 && !order_->drifts();
    if (stepwise_) fill_.set_capacity(view.capacity(GpuType(0)));
    return absl::OkStatus();
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    return stepwise_ ? step(view, events) : whole(view, events);
  }

 private:
  Decision step(const View& view, std::span<const Event> events);
  Decision whole(const View& view, std::span<const Event> events);
  void take(const View& view, const Event& event);
  void jump(const View& view);
  void take_capacity(const View& view);
  void watch(const View& view, JobId id);
  void correct(const View& view, JobId id);
  void correct_held_up(const View& view);
  double next_jump_s(const View& view, const std::vector<Grant>& grants);
  void pack(const View& view, Decision* decision) const;
  bool holds(JobId id) const { return static_cast<size_t>(id.value) < holds_.size() && holds_[id.value] != 0; }

  std::unique_ptr<Order> order_;
  OrderedOptions options_;
  PolicyTraits traits_;
  GreedyFill fill_;
  bool stepwise_ = true;
  std::vector<uint8_t> holds_;                  // by job: what the engine was told
  std::set<std::pair<double, int32_t>> jumps_;  // when keys jump
  std::vector<double> jump_of_;                 // by job
  // Without preemption: jobs that stay on hosts under notice for lack of room elsewhere. They are not in the fill.
  std::vector<JobId> stranded_;
  std::vector<JobId> noticed_;  // running jobs to be moved off hosts
  // Running jobs whose keys may fall slower than `fall_per_s`: they change, write checkpoints, or share the fabric.
  std::set<JobId> held_up_;
};

// Jobs on hosts under notice are moved; without preemption, if there is room, in the order they came.
void OrderedPolicy::take_capacity(const View& view) {
  const bool preemptive = options_.mode == FillMode::kPreemptive;
  for (const JobId id : stranded_) fill_.add_running(id.value, order_->key(view, id), view.job(id).gpus);
  stranded_.clear();
  int64_t room = view.capacity(GpuType(0));
  std::vector<std::pair<JobId, int>> threatened;
  for (const JobId id : view.active()) {
    if (!holds(id)) continue;
    const int gpus = view.job(id).gpus;
    const Placement placement = view.progress(id).placement;
    if (placement.empty()) continue;  // lost just now
    const int safe = safe_gpus(view, placement);
    room -= safe;
    if (safe < gpus) threatened.emplace_back(id, safe);
  }
  int64_t taken = 0;  // safe GPUs of jobs that are not moved
  for (const auto& [id, safe] : threatened) {
    if (preemptive || room + safe >= view.job(id).gpus) {
      noticed_.push_back(id);
      room -= view.job(id).gpus - safe;
    } else {
      stranded_.push_back(id);
      taken += safe;
    }
  }
  const int64_t capacity = view.capacity(GpuType(0)) - taken;
  for (const JobId id : stranded_) fill_.remove(id.value);
  fill_.set_capacity(capacity);
}

// Looks out for the next jump of a job's key.
void OrderedPolicy::watch(const View& view, JobId id) {
  const size_t k = static_cast<size_t>(id.value);
  if (k >= jump_of_.size()) jump_of_.resize(k + 1, kNever);
  if (jump_of_[k] != kNever) jumps_.erase({jump_of_[k], id.value});
  jump_of_[k] = fill_.has(id.value) ? order_->jump_s(view, id, fill_.runs(id.value)) : kNever;
  if (jump_of_[k] == kNever) return;
  jump_of_[k] = std::max(jump_of_[k], std::nextafter(view.now_s(), kNever));  // never now: it would be asked for ever
  jumps_.insert({jump_of_[k], id.value});
}

void OrderedPolicy::take(const View& view, const Event& event) {
  const int32_t id = event.job.value;
  switch (event.kind) {
    case Event::Kind::kSubmitted:
      if (holds_.size() <= static_cast<size_t>(id)) holds_.resize(static_cast<size_t>(id) + 1, 0);
      fill_.add(id, order_->key(view, event.job), view.job(event.job).gpus, order_->fall_per_s(view.job(event.job)));
      watch(view, event.job);
      break;
    case Event::Kind::kFinished:
      if (fill_.has(id)) fill_.remove(id);
      std::erase(stranded_, event.job);
      holds_[static_cast<size_t>(id)] = 0;
      order_->finished(view, event.job);
      watch(view, event.job);
      break;
    case Event::Kind::kLost: {
      holds_[static_cast<size_t>(id)] = 0;
      const Job& job = view.job(event.job);
      if (fill_.has(id)) fill_.remove(id);
      std::erase(stranded_, event.job);
      fill_.add(id, order_->key(view, event.job), job.gpus, order_->fall_per_s(job));
      watch(view, event.job);
      break;
    }
    case Event::Kind::kRate:
      if (order_->fall_per_s(view.job(event.job)) <= 0) break;
      fill_.set_key(id, order_->key(view, event.job));
      held_up_.insert(event.job);
      break;
    case Event::Kind::kCapacity:
    case Event::Kind::kTimer: break;
  }
}

void OrderedPolicy::jump(const View& view) {
  while (!jumps_.empty() && jumps_.begin()->first <= view.now_s()) {
    const JobId id(jumps_.begin()->second);
    fill_.set_key(id.value, order_->key(view, id));
    watch(view, id);
  }
}

// Before anything is decided: the keys of these jobs fell at full rate, which they did not. Moving them back to where
// they are starts and stops nobody, but tells who goes first from now on. A job that trains evenly at the rate of its
// key needs no more looking after: O(log n) for each change of GPUs and each event during it.
void OrderedPolicy::correct_held_up(const View& view) {
  std::erase_if(held_up_, [&](JobId id) {
    if (!fill_.runs(id.value)) return true;
    const Progress progress = view.progress(id);
    if (progress.placement.empty()) return true;  // ended or lost just now, which an event says
    const double key = order_->key(view, id);
    if (std::abs(key - fill_.key(id.value)) > 1e-9 * std::abs(key)) fill_.set_key(id.value, key);
    const Job& job = view.job(id);
    return progress.even_per_s > 0 &&
           progress.even_per_s ==
               view.throughput().rate(job, progress.placement.type, job.gpus, progress.work_done).per_s;
  });
}

// The key of a job that was stopped is where it fell to at full rate; it may have been held up by a change. It moves
// back in the line, which starts nobody: it did not fit further ahead.
void OrderedPolicy::correct(const View& view, JobId id) {
  if (!fill_.has(id.value) || fill_.runs(id.value) || order_->fall_per_s(view.job(id)) <= 0) return;
  const double key = order_->key(view, id);
  if (key > fill_.key(id.value) * (1 + 1e-9)) fill_.set_key(id.value, key);
}

Decision OrderedPolicy::step(const View& view, std::span<const Event> events) {
  fill_.set_now(view.now_s());
  noticed_.clear();
  correct_held_up(view);
  const auto frees_stranded = [this](const Event& event) {
    return event.kind == Event::Kind::kCapacity ||
           std::find(stranded_.begin(), stranded_.end(), event.job) != stranded_.end();
  };
  if (std::any_of(events.begin(), events.end(), frees_stranded)) take_capacity(view);
  for (const Event& event : events) take(view, event);
  jump(view);
  fill_.fill_up();
  std::vector<int32_t> changed = fill_.take_changed();
  for (const int32_t k : changed) correct(view, JobId(k));
  Decision decision;
  for (const int32_t k : changed) {
    const JobId id(k);
    if (!fill_.has(k)) continue;
    const bool runs = fill_.runs(k);
    if (runs == holds(id)) continue;
    holds_[static_cast<size_t>(k)] = runs ? 1 : 0;
    decision.grants.push_back(
        Grant{.job = id, .type = GpuType(0), .gpus = runs ? view.job(id).gpus : 0, .hosts = {}, .beside = JobId()});
    watch(view, id);
  }
  for (const JobId id : noticed_) {
    const auto has = [id](const Grant& grant) { return grant.job == id; };
    if (!fill_.runs(id.value) || std::any_of(decision.grants.begin(), decision.grants.end(), has)) continue;
    decision.grants.push_back(
        Grant{.job = id, .type = GpuType(0), .gpus = view.job(id).gpus, .hosts = {}, .beside = JobId()});
  }
  for (const Grant& grant : decision.grants) {
    if (grant.gpus > 0 && order_->fall_per_s(view.job(grant.job)) > 0) held_up_.insert(grant.job);
  }
  if (!jumps_.empty()) decision.wake_at_s = jumps_.begin()->first;
  return decision;
}

// The next jump of any key, given what was just decided.
double OrderedPolicy::next_jump_s(const View& view, const std::vector<Grant>& grants) {
  std::map<JobId, bool> runs;
  for (const JobId id : view.active()) runs[id] = !view.progress(id).placement.empty();
  for (const Grant& grant : grants) runs[grant.job] = grant.gpus > 0;
  double next_s = kNever;
  for (const auto& [id, run] : runs) next_s = std::min(next_s, order_->jump_s(view, id, run));
  return std::max(next_s, std::nextafter(view.now_s(), kNever));
}

Decision OrderedPolicy::whole(const View& view, std::span<const Event> events) {
  for (const Event& event : events) {
    if (event.kind == Event::Kind::kFinished) order_->finished(view, event.job);
  }
  FillRequest request{.ids = {}, .keep = {}, .options = options_};
  std::vector<std::pair<double, JobId>> queue;
  Decision decision;
  bool any_waits = false;
  for (const JobId id : view.active()) {
    any_waits = any_waits || view.progress(id).placement.empty();
    queue.emplace_back(order_->key(view, id), id);
  }
  std::sort(queue.begin(), queue.end());
  for (const auto& entry : queue) request.ids.push_back(entry.second);
  decision.grants = fill_all(view, request);
  if (options_.pack_at > 0) pack(view, &decision);
  decision.wake_at_s = next_jump_s(view, decision.grants);
  if (any_waits) decision.wake_at_s = std::min(decision.wake_at_s, view.now_s() + order_->wake_every_s());
  return decision;
}

// What two jobs keep of their rates when they share GPUs, in sum; 0 if they cannot.
double kept_together(const View& view, JobId a, JobId b, GpuType type, int gpus) {
  const auto both = view.throughput().shared_rate(view.job(a), view.job(b), type, gpus);
  const double a_alone = view.throughput().rate(view.job(a), type, gpus, view.progress(a).work_done).per_s;
  const double b_alone = view.throughput().rate(view.job(b), type, gpus, view.progress(b).work_done).per_s;
  if (!(both.first > 0) || !(both.second > 0) || !(a_alone > 0) || !(b_alone > 0)) return 0;
  return both.first / a_alone + both.second / b_alone;
}

// Gavel's packing for FIFO: a job that waits goes beside the one with which it keeps most, if that reaches `pack_at`.
void OrderedPolicy::pack(const View& view, Decision* decision) const {
  std::map<JobId, GpuType> alone;  // jobs that will run with nobody beside them
  for (const JobId id : view.active()) {
    const Progress progress = view.progress(id);
    if (!progress.placement.empty() && !progress.beside.valid()) alone[id] = progress.placement.type;
  }
  std::set<JobId> starting;
  for (const Grant& grant : decision->grants) {
    alone[grant.job] = grant.type;
    starting.insert(grant.job);
  }
  for (const JobId id : view.active()) {
    if (!view.progress(id).placement.empty() || starting.count(id) > 0) continue;
    double best = 0;
    Grant grant{.job = id, .type = GpuType(), .gpus = view.job(id).gpus, .hosts = {}, .beside = JobId()};
    for (const auto& [other, type] : alone) {
      if (view.job(other).gpus != grant.gpus) continue;
      const double kept = kept_together(view, id, other, type, grant.gpus);
      if (kept < options_.pack_at || kept <= best) continue;
      best = kept;
      grant.type = type;
      grant.beside = other;
    }
    if (!grant.beside.valid()) continue;
    alone.erase(grant.beside);
    decision->grants.push_back(grant);
  }
}

}  // namespace

std::unique_ptr<Policy> make_ordered(std::unique_ptr<Order> order, OrderedOptions options, PolicyTraits traits) {
  return std::make_unique<OrderedPolicy>(std::move(order), options, traits);
}

}  // namespace scalai::policy::order
