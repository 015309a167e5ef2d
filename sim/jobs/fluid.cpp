#include "sim/jobs/fluid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/run/policy/host_ledger.h"
#include "sim/jobs/internal/fair_share.h"
#include "sim/jobs/internal/ledger.h"

namespace scalai::jobs {
namespace internal {
namespace {

constexpr double kRounding = 1e-9;  // of a number of GPUs, or of a job's work

struct FluidJob {
  double rate = 0;        // iterations a second
  double until_work = 0;  // its shares hold until then: its end, or a change of a rate
  double gpus = 0;        // GPUs x share
  double price = 0;       // of these, US dollars an hour
  double done = 0;
  double arrived_job_s = 0, arrived_up_gpu_s = 0;  // the ledger's integrals at submission
};

class Fluid final : public policy::View {
 public:
  Fluid(const Setup& setup, policy::FluidPolicy& policy)
      : setup_(setup),
        policy_(policy),
        host_ledger_(*setup.fleet, setup.availability),
        ledger_(*setup.fleet, setup.options.samples),
        jobs_(setup.workload->jobs.size()) {
    outcome_.jobs.resize(jobs_.size());
    for (size_t k = 0; k < jobs_.size(); ++k) outcome_.jobs[k].job = policy::JobId(static_cast<int64_t>(k));
    ledger_.without_places();
    outcome_.window = setup.options.window;
    if (!outcome_.window) return;
    outcome_.window->to_job = std::min(outcome_.window->to_job, jobs_.size());
    window_left_ = outcome_.window->to_job - outcome_.window->from_job;
    ledger_.set_window(outcome_.window->from_s, outcome_.window->to_s);
  }

  double now_s() const override { return now_s_; }
  const policy::Fleet& fleet() const override { return *setup_.fleet; }
  int capacity(policy::GpuType type) const override { return host_ledger_.capacity(type); }
  int capacity(HostId host) const override { return host_ledger_.capacity(host); }
  double price(policy::GpuType type) const override { return ledger_.price(type); }
  const policy::Job& job(policy::JobId id) const override {
    return setup_.workload->jobs[static_cast<size_t>(id.value)];
  }
  std::span<const policy::JobId> active() const override { return active_; }
  const policy::Throughput& throughput() const override { return *setup_.throughput; }
  double change_cost_s(policy::JobId /*id*/, int /*to_gpus*/) const override { return 0; }
  policy::Progress progress(policy::JobId id) const override {
    const policy::JobRecord& entry = outcome_.jobs[static_cast<size_t>(id.value)];
    return policy::Progress{.work_done = live(id).done,
                            .attained_gpu_s = entry.attained_gpu_s,
                            .executed_s = entry.executed_s,
                            .first_start_s = entry.first_start_s,
                            .last_change_s = now_s_,
                            .restarts = 0,
                            .placement = {},
                            .beside = policy::JobId(),
                            .even_per_s = live(id).rate};
  }

  absl::StatusOr<policy::Outcome> run() {
    const int64_t total = std::ssize(jobs_);
    double at_s = next_instant();
    for (; at_s <= until_s() && at_s != policy::kNever && ended_ < total; at_s = next_instant()) {
      advance(at_s);
      finish_jobs();
      fleet_events();
      submit_jobs();
      SCALAI_RETURN_IF_ERROR(share_out());
      ledger_.sample(use_, host_ledger_);
      if (setup_.watcher.progress && outcome_.decisions % 64 == 0) setup_.watcher.progress(now_s_, ended_, total);
    }
    if (const double end_s = until_s(); at_s > end_s && at_s != policy::kNever && ended_ < total) advance(end_s);
    for (size_t k = 0; k < jobs_.size(); ++k) {
      if (left_.size() <= k || left_[k] == 0)
        end_job(policy::JobId(static_cast<int64_t>(k)), policy::JobEnd::kUnfinished);
    }
    ledger_.sample(use_, host_ledger_);
    ledger_.finish({}, &outcome_);
    outcome_.training_gpu_s = training_gpu_s_;
    outcome_.changing_gpu_s = 0;
    outcome_.end_s = now_s_;
    if (outcome_.window) outcome_.window->to_s = std::min(outcome_.window->to_s, now_s_);
    outcome_.policy_remarks = policy_.remarks();
    if (setup_.watcher.progress) setup_.watcher.progress(now_s_, ended_, total);
    return std::move(outcome_);
  }

 private:
  FluidJob& live(policy::JobId id) { return jobs_[static_cast<size_t>(id.value)]; }
  const FluidJob& live(policy::JobId id) const { return jobs_[static_cast<size_t>(id.value)]; }
  policy::JobRecord& record(policy::JobId id) { return outcome_.jobs[static_cast<size_t>(id.value)]; }

  double until_s() const {
    const double until_s = setup_.options.until_s;
    if (!outcome_.window || outcome_.window->run_on || window_left_ > 0) return until_s;
    const double end_s = outcome_.window->to_s;
    return std::min(until_s, end_s == policy::kNever ? now_s_ : std::max(now_s_, end_s));
  }

  double next_instant() const {
    double at_s = next_job_ < jobs_.size() ? setup_.workload->jobs[next_job_].submit_s : policy::kNever;
    if (setup_.availability != nullptr && next_fleet_event_ < setup_.availability->events.size()) {
      at_s = std::min(at_s, setup_.availability->events[next_fleet_event_].at_s);
    }
    for (const policy::JobId id : active_) {
      const FluidJob& one = live(id);
      if (one.rate > 0) at_s = std::min(at_s, now_s_ + std::max(0.0, one.until_work - one.done) / one.rate);
    }
    return std::max(at_s, now_s_);
  }

  void advance(double to_s) {
    const double dt = to_s - now_s_;
    double counted = dt;
    if (outcome_.window) {
      counted = std::max(0.0, std::min(to_s, outcome_.window->to_s) - std::max(now_s_, outcome_.window->from_s));
    }
    ledger_.advance(to_s, use_, host_ledger_);
    for (const policy::JobId id : active_) {
      FluidJob& one = live(id);
      if (one.rate <= 0) continue;
      one.done = std::min(one.until_work, one.done + one.rate * dt);
      // Nor is less left than what moments of this size tell apart.
      const double moment_s = 4 * std::numeric_limits<double>::epsilon() * std::abs(to_s);
      if (one.until_work - one.done <= std::max(kRounding * one.until_work, one.rate * moment_s))
        one.done = one.until_work;
      record(id).executed_s += dt;
      record(id).attained_gpu_s += one.gpus * dt;
      record(id).cost += one.price * dt / 3600;
    }
    training_gpu_s_ += busy_ * counted;
    now_s_ = to_s;
  }

  void finish_jobs() {
    const std::vector<policy::JobId> before = active_;
    for (const policy::JobId id : before) {
      if (live(id).done >= job(id).work) end_job(id, policy::JobEnd::kFinished);
    }
  }

  void fleet_events() {
    if (setup_.availability == nullptr) return;
    const std::vector<policy::FleetEvent>& all = setup_.availability->events;
    for (; next_fleet_event_ < all.size() && all[next_fleet_event_].at_s <= now_s_; ++next_fleet_event_) {
      const policy::FleetEvent& event = all[next_fleet_event_];
      ++outcome_.events;
      if (event.kind == policy::FleetEvent::Kind::kPrice) ledger_.set_price(event.type, event.price);
      for (const HostId host : event.hosts) {
        switch (event.kind) {
          case policy::FleetEvent::Kind::kUp: host_ledger_.set_up(host); break;
          case policy::FleetEvent::Kind::kNotice: host_ledger_.set_noticed(host); break;
          case policy::FleetEvent::Kind::kPrice: break;
          default: host_ledger_.set_down(host, now_s_);
        }
      }
    }
  }

  void submit_jobs() {
    const std::vector<policy::Job>& all = setup_.workload->jobs;
    for (; next_job_ < all.size() && all[next_job_].submit_s <= now_s_; ++next_job_) {
      const policy::JobId id(static_cast<int64_t>(next_job_));
      left_.resize(next_job_ + 1, 0);
      ++outcome_.events;
      live(id).until_work = all[next_job_].work;
      live(id).arrived_job_s = ledger_.job_s();
      live(id).arrived_up_gpu_s = ledger_.up_gpu_s();
      if (all[next_job_].gpus > host_ledger_.largest_ever())
        end_job(id, policy::JobEnd::kTooLarge);
      else
        active_.push_back(id);
    }
  }

  void end_job(policy::JobId id, policy::JobEnd end) {
    policy::JobRecord& entry = record(id);
    entry.end = end;
    entry.work_done = live(id).done;
    if (end == policy::JobEnd::kFinished) {
      ++outcome_.events;
      entry.finish_s = now_s_;
      entry.isolated_s = fair_share_s(job(id), fleet(), throughput(), ledger_.job_s() - live(id).arrived_job_s,
                                      ledger_.up_gpu_s() - live(id).arrived_up_gpu_s);
    }
    std::erase(active_, id);
    left_.resize(std::max(left_.size(), static_cast<size_t>(id.value) + 1), 0);
    left_[static_cast<size_t>(id.value)] = 1;
    ++ended_;
    if (outcome_.window && outcome_.window->holds(id) && --window_left_ == 0 &&
        outcome_.window->to_s == policy::kNever) {
      ledger_.close();
      outcome_.window->to_s = now_s_;
    }
    if (setup_.watcher.ended) setup_.watcher.ended(now_s_, job(id), entry);
  }

  absl::Status share_out() {
    std::vector<double> used(fleet().types.size(), 0);
    for (const policy::JobId id : active_) {
      FluidJob& one = live(id);
      one.rate = one.gpus = one.price = 0;
      one.until_work = job(id).work;
    }
    ++outcome_.decisions;
    std::vector<policy::JobShare> shares;
    if (!active_.empty()) {
      SCALAI_ASSIGN_OR_RETURN(shares, policy_.shares(*this));
    }
    for (const policy::JobShare& share : shares) {
      FluidJob& one = live(share.job);
      const double gpus = job(share.job).gpus * share.share;
      one.rate += share.share * share.per_s;
      one.gpus += gpus;
      one.price += gpus * price(share.type);
      const policy::Rate rate = throughput().rate(job(share.job), share.type, job(share.job).gpus, one.done);
      if (rate.until_work > one.done) one.until_work = std::min(one.until_work, rate.until_work);
      if (!share.beside) used[static_cast<size_t>(share.type.value)] += gpus;
    }
    use_ = {};
    busy_ = 0;
    for (size_t t = 0; t < used.size(); ++t) {
      const int there = host_ledger_.capacity(policy::GpuType(static_cast<int64_t>(t)));
      if (used[t] > there + kRounding * (1 + there) * 1000) {
        return absl::InternalError(
            fmt::format("shares of {} GPUs of type {}, of {}", used[t], fleet().types[t].name, there));
      }
      busy_ += used[t];
    }
    for (const policy::JobId id : active_) {
      const bool runs = live(id).rate > 0;
      ++(runs ? use_.running_jobs : use_.waiting_jobs);
      if (runs && record(id).first_start_s == policy::kNever) record(id).first_start_s = now_s_;
    }
    use_.held = use_.training = static_cast<int>(std::lround(busy_));
    return absl::OkStatus();
  }

  Setup setup_;
  policy::FluidPolicy& policy_;
  policy::HostLedger host_ledger_;
  Ledger ledger_;
  Use use_;
  std::vector<FluidJob> jobs_;
  std::vector<uint8_t> left_;          // by job: it has ended
  std::vector<policy::JobId> active_;  // by id
  policy::Outcome outcome_;
  double now_s_ = 0;
  double busy_ = 0;            // GPUs in use
  double training_gpu_s_ = 0;  // in the window
  size_t next_job_ = 0, next_fleet_event_ = 0, window_left_ = 0;
  int64_t ended_ = 0;
};

}  // namespace
}  // namespace internal

absl::StatusOr<policy::Outcome> run_fluid(const Setup& setup, policy::FluidPolicy& policy) {
  return internal::Fluid(setup, policy).run();
}

}  // namespace scalai::jobs
