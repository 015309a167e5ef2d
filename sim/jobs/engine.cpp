#include "sim/jobs/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "sim/jobs/fluid.h"
#include "sim/jobs/internal/engine_state.h"
#include "sim/jobs/internal/fair_share.h"

namespace scalai::jobs {
namespace internal {
namespace {

constexpr int kIdleWakes = 1000;          // a policy that wakes so often in a row and does nothing waits for ever
constexpr int64_t kProgressEvery = 4096;  // instants

std::map<int, int64_t> sizes_of(const policy::Workload& workload) {
  std::map<int, int64_t> jobs_of_size;
  for (const policy::Job& job : workload.jobs) ++jobs_of_size[job.gpus];
  return jobs_of_size;
}

}  // namespace

Engine::Engine(const Setup& setup)
    : setup_(setup),
      host_ledger_(*setup.fleet, setup.availability),
      ledger_(*setup.fleet, setup.options.samples),
      jobs_(setup.workload->jobs.size()),
      jobs_on_(setup.fleet->hosts.size()),
      times_(setup.workload->jobs.size()) {
  outcome_.per_gpu = setup.fleet->per_gpu;
  outcome_.jobs.resize(jobs_.size());
  for (size_t k = 0; k < jobs_.size(); ++k) outcome_.jobs[k].job = policy::JobId(static_cast<int64_t>(k));
  outcome_.window = setup.options.window;
  if (!outcome_.window) return;
  policy::Window& window = *outcome_.window;
  window.to_job = std::min(window.to_job, jobs_.size());
  window_left_ = window.to_job - window.from_job;
  ledger_.set_window(window.from_s, window.to_s);
}

policy::Progress Engine::progress(policy::JobId id) const {
  const LiveJob& one = live(id);
  const policy::JobRecord& entry = outcome_.jobs[static_cast<size_t>(id.value)];
  const double dt = one.placement.empty() ? 0 : now_s_ - one.booked_s;
  return policy::Progress{.work_done = one.training.work(now_s_, setup_.options.checkpoints),
                          .attained_gpu_s = entry.attained_gpu_s + dt * whole(one.placement.gpus()),
                          .executed_s = entry.executed_s + dt,
                          .first_start_s = entry.first_start_s,
                          .last_change_s = one.last_change_s,
                          .restarts = entry.restarts,
                          .placement = one.placement,
                          .beside = one.beside,
                          .even_per_s = even_per_s(one)};
}

double Engine::even_per_s(const LiveJob& one) const {
  const Checkpoints& checkpoints = setup_.options.checkpoints;
  const bool writes = checkpoints.every_s > 0 && checkpoints.write_s > 0;
  if (one.state != State::kTraining || one.beside.valid() || writes || setup_.changes->slows_training()) return 0;
  return one.training.rate();
}

std::span<const policy::JobId> Engine::active() const {
  if (active_stale_) {
    std::erase_if(active_, [this](policy::JobId id) { return live(id).state == State::kEnded; });
    active_stale_ = false;
  }
  return active_;
}

double Engine::change_cost_s(policy::JobId id, int to_gpus) const {
  return setup_.changes->expected_s(job(id), live(id).placement.gpus(), to_gpus);
}

double Engine::next_instant() const {
  double at_s = std::min({times_.top_time(), wake_at_s_, setup_.changes->next_end_s()});
  if (next_job_ < jobs_.size()) at_s = std::min(at_s, setup_.workload->jobs[next_job_].submit_s);
  if (setup_.availability != nullptr && next_fleet_event_ < setup_.availability->events.size()) {
    at_s = std::min(at_s, setup_.availability->events[next_fleet_event_].at_s);
  }
  return at_s;
}

// The end of the run: that of the options, or of the window once all of its jobs have ended.
double Engine::until_s() const {
  const double until_s = setup_.options.until_s;
  if (!outcome_.window || outcome_.window->run_on || window_left_ > 0) return until_s;
  const double end_s = outcome_.window->to_s;
  return std::min(until_s, end_s == policy::kNever ? now_s_ : std::max(now_s_, end_s));
}

absl::Status Engine::end_changes() {
  for (const ChangeEnd& end : setup_.changes->advance(now_s_)) {
    SCALAI_CHECK(live(end.job).state == State::kChanging, fmt::format("the change of job {} ended", end.job.value));
    SCALAI_RETURN_IF_ERROR(start_training(end.job));
  }
  return absl::OkStatus();
}

// Jobs that are done or whose rate changes by itself now.
absl::Status Engine::progress_jobs() {
  while (times_.top_time() <= now_s_) {
    const policy::JobId id(times_.top());
    LiveJob& one = live(id);
    if (one.until_work >= job(id).work) {
      one.training.set_rate(now_s_, 0, setup_.options.checkpoints);
      one.training.set_work(job(id).work);
      end_job(id, policy::JobEnd::kFinished);
      events_.push_back(policy::Event{policy::Event::Kind::kFinished, id});
      continue;
    }
    one.training.set_rate(now_s_, one.training.rate(), setup_.options.checkpoints);
    one.training.set_work(one.until_work);
    SCALAI_RETURN_IF_ERROR(retime(id));
    events_.push_back(policy::Event{policy::Event::Kind::kRate, id});
  }
  return absl::OkStatus();
}

// The jobs on it lose it, then those whose state is on its way from there.
absl::Status Engine::lose_host(HostId host, ChangeCause cause) {
  const std::vector<policy::JobId> there = jobs_on_[static_cast<size_t>(host.value)];
  for (const policy::JobId id : there) lose(id, cause);
  const bool was_up = host_ledger_.up(host);
  host_ledger_.set_down(host, now_s_);
  if (!was_up) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const std::vector<LostWork> all, setup_.changes->host_lost(host, cause, now_s_));
  for (const LostWork& lost : all) {
    SCALAI_CHECK(live(lost.job).state == State::kChanging, fmt::format("job {} does not change", lost.job.value));
    drop_work(lost.job, lost.iterations);
  }
  return absl::OkStatus();
}

absl::Status Engine::apply_fleet_event(const policy::FleetEvent& event) {
  if (event.kind == policy::FleetEvent::Kind::kPrice) {
    ledger_.set_price(event.type, event.price);
    return absl::OkStatus();
  }
  for (const HostId host : event.hosts) {
    switch (event.kind) {
      case policy::FleetEvent::Kind::kUp: host_ledger_.set_up(host); break;
      case policy::FleetEvent::Kind::kNotice: host_ledger_.set_noticed(host); break;
      default: {
        const bool taken = event.kind == policy::FleetEvent::Kind::kTaken;
        SCALAI_RETURN_IF_ERROR(lose_host(host, taken ? ChangeCause::kTaken : ChangeCause::kLost));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::fleet_events() {
  if (setup_.availability == nullptr) return absl::OkStatus();
  const std::vector<policy::FleetEvent>& all = setup_.availability->events;
  bool any = false;
  for (; next_fleet_event_ < all.size() && all[next_fleet_event_].at_s <= now_s_; ++next_fleet_event_) {
    SCALAI_RETURN_IF_ERROR(apply_fleet_event(all[next_fleet_event_]));
    any = true;
  }
  if (any) events_.push_back(policy::Event{policy::Event::Kind::kCapacity, policy::JobId()});
  return absl::OkStatus();
}

void Engine::submit_jobs() {
  const std::vector<policy::Job>& all = setup_.workload->jobs;
  for (; next_job_ < all.size() && all[next_job_].submit_s <= now_s_; ++next_job_) {
    const policy::JobId id(static_cast<int64_t>(next_job_));
    LiveJob& one = live(id);
    one.state = State::kWaiting;
    one.booked_s = one.last_change_s = now_s_;
    one.arrived_job_s = ledger_.job_s();
    one.arrived_up_gpu_s = ledger_.up_gpu_s();
    one.arrived_free_gpu_s = ledger_.free_gpu_s();
    one.arrived_unusable_gpu_s = ledger_.unusable_gpu_s(all[next_job_].gpus);
    ++use_.waiting_jobs;
    active_.push_back(id);
    if (all[next_job_].gpus > host_ledger_.largest_ever()) {
      end_job(id, policy::JobEnd::kTooLarge);
      continue;
    }
    events_.push_back(policy::Event{policy::Event::Kind::kSubmitted, id});
  }
}

void Engine::end_job(policy::JobId id, policy::JobEnd end) {
  LiveJob& one = live(id);
  policy::JobRecord& entry = record(id);
  if (one.state == State::kChanging) setup_.changes->cancel(id, now_s_);
  if (one.state == State::kTraining) {
    times_.remove(id.value);
    setup_.changes->idle(id, now_s_);
  }
  if (!one.placement.empty()) unseat(id);
  std::erase_if(blocked_, [id](const policy::Grant& grant) { return grant.job == id; });
  entry.work_done = one.training.work(now_s_, setup_.options.checkpoints);
  if (one.state != State::kFuture) --use_.waiting_jobs;
  one.state = State::kEnded;
  entry.end = end;
  if (end == policy::JobEnd::kFinished) {
    entry.finish_s = now_s_;
    entry.isolated_s = fair_share_s(job(id), fleet(), throughput(), ledger_.job_s() - one.arrived_job_s,
                                    ledger_.up_gpu_s() - one.arrived_up_gpu_s);
  }
  if (one.state != State::kFuture && entry.first_start_s == policy::kNever) book_queue(id);
  one.state_at = policy::Placement{};
  active_stale_ = true;
  ++ended_;
  if (outcome_.window && outcome_.window->holds(id) && --window_left_ == 0 && outcome_.window->to_s == policy::kNever) {
    ledger_.close();
    outcome_.window->to_s = now_s_;
  }
  if (setup_.watcher.ended) setup_.watcher.ended(now_s_, job(id), entry);
}

absl::Status Engine::ask_policy() {
  std::sort(events_.begin(), events_.end(), [](const policy::Event& a, const policy::Event& b) {
    const auto key = [](const policy::Event& event) {
      constexpr int kOrder[] = {3, 0, 1, 4, 2, 5};  // finished, lost, capacity, submitted, rate, timer
      return std::pair(kOrder[static_cast<size_t>(event.kind)], event.job.value);
    };
    return key(a) < key(b);
  });
  outcome_.events += static_cast<int64_t>(events_.size());
  ++outcome_.decisions;
  SCALAI_ASSIGN_OR_RETURN(const policy::Decision decision, setup_.policy->decide(*this, events_));
  return apply(decision);
}

// Rates that depend on neighbours or on traffic, once all that happens at this instant has happened.
absl::Status Engine::repace() {
  for (size_t k = 0; k < touched_.size(); ++k) {
    if (live(touched_[k]).state == State::kTraining) SCALAI_RETURN_IF_ERROR(retime(touched_[k]));
  }
  touched_.clear();
  if (setup_.changes->step_rate_version() == step_rate_version_) return absl::OkStatus();
  step_rate_version_ = setup_.changes->step_rate_version();
  for (const policy::JobId id : active()) {
    if (live(id).state == State::kTraining) SCALAI_RETURN_IF_ERROR(retime(id));
  }
  return absl::OkStatus();
}

absl::Status Engine::instant(double at_s) {
  ledger_.advance(at_s, use_, host_ledger_);
  now_s_ = at_s;
  events_.clear();
  SCALAI_RETURN_IF_ERROR(end_changes());
  SCALAI_RETURN_IF_ERROR(progress_jobs());
  SCALAI_RETURN_IF_ERROR(fleet_events());
  submit_jobs();
  if (!events_.empty()) idle_wakes_ = 0;
  if (wake_at_s_ <= now_s_) {
    wake_at_s_ = policy::kNever;
    ++idle_wakes_;
    events_.push_back(policy::Event{policy::Event::Kind::kTimer, policy::JobId()});
  }
  if (!events_.empty()) SCALAI_RETURN_IF_ERROR(ask_policy());
  SCALAI_RETURN_IF_ERROR(repace());
  ledger_.sample(use_, host_ledger_);
  return absl::OkStatus();
}

// Whether there is a GPU type of which enough is up for the least it can do with, and on which it runs.
bool Engine::could_run(const policy::Job& spec) const {
  for (size_t t = 0; t < fleet().types.size(); ++t) {
    const policy::GpuType type(static_cast<int64_t>(t));
    const int gpus = std::min(spec.gpus, spec.min_gpus);
    if (host_ledger_.capacity(type) < gpus) continue;
    if (throughput().rate(spec, type, gpus, 0).per_s > 0) return true;
    if (host_ledger_.capacity(type) >= spec.gpus && throughput().rate(spec, type, spec.gpus, 0).per_s > 0) return true;
  }
  return false;
}

// Nothing runs and nothing will come: only the policy's own timers are left. They may still be worth waiting for, but
// not for ever, and not where no job could run.
bool Engine::stuck() {
  const bool more_hosts = setup_.availability != nullptr && next_fleet_event_ < setup_.availability->events.size();
  if (use_.running_jobs > 0 || next_job_ < jobs_.size() || more_hosts) return false;
  if (active().empty() || idle_wakes_ > kIdleWakes) return true;
  return std::none_of(active().begin(), active().end(), [this](policy::JobId id) { return could_run(job(id)); });
}

absl::Status Engine::end_run() {
  const std::vector<policy::JobId> left(active().begin(), active().end());
  const bool out_of_time = next_instant() != policy::kNever && !stuck();
  if (!left.empty() && !out_of_time &&
      std::all_of(left.begin(), left.end(), [this](policy::JobId id) { return could_run(job(id)); })) {
    return absl::FailedPreconditionError(
        fmt::format("the policy leaves {} jobs waiting for ever, though each could run; the first is \"{}\" ({} GPUs)",
                    left.size(), job(left.front()).name, job(left.front()).gpus));
  }
  for (const policy::JobId id : left) end_job(id, policy::JobEnd::kUnfinished);
  for (; next_job_ < jobs_.size(); ++next_job_)
    end_job(policy::JobId(static_cast<int64_t>(next_job_)), policy::JobEnd::kUnfinished);
  return absl::OkStatus();
}

absl::StatusOr<policy::Outcome> Engine::run() {
  SCALAI_RETURN_IF_ERROR(setup_.policy->begin(*this));
  const int64_t total = static_cast<int64_t>(jobs_.size());
  double at_s = next_instant();
  for (int64_t instants = 1; at_s <= until_s() && at_s != policy::kNever && ended_ < total; ++instants) {
    SCALAI_RETURN_IF_ERROR(instant(at_s));
    if (setup_.watcher.progress && instants % kProgressEvery == 0) setup_.watcher.progress(now_s_, ended_, total);
    if (stuck()) break;
    at_s = next_instant();
    SCALAI_CHECK(at_s >= now_s_, fmt::format("time goes back from {} to {}", now_s_, at_s));
  }
  if (const double end_s = until_s(); at_s > end_s && at_s != policy::kNever && ended_ < total) {
    ledger_.advance(end_s, use_, host_ledger_);
    now_s_ = end_s;
  }
  SCALAI_RETURN_IF_ERROR(end_run());
  ledger_.sample(use_, host_ledger_);
  ledger_.finish(sizes_of(*setup_.workload), &outcome_);
  outcome_.end_s = now_s_;
  if (outcome_.window) outcome_.window->to_s = std::min(outcome_.window->to_s, now_s_);
  outcome_.policy_remarks = setup_.policy->remarks();
  if (setup_.watcher.progress) setup_.watcher.progress(now_s_, ended_, total);
  return std::move(outcome_);
}

namespace {

bool finite_from_zero(double value) { return std::isfinite(value) && value >= 0; }

std::vector<std::string> window_problems(const std::optional<policy::Window>& window, size_t jobs) {
  if (!window) return {};
  if (window->from_job >= std::min(window->to_job, jobs)) {
    return {fmt::format("the window of jobs {} to {} has none of {} jobs", window->from_job, window->to_job, jobs)};
  }
  if (!finite_from_zero(window->from_s) || !(window->to_s > window->from_s)) {
    return {fmt::format("the window goes from {} s to {} s", window->from_s, window->to_s)};
  }
  return {};
}

std::vector<std::string> workload_problems(const policy::Workload& workload) {
  std::vector<std::string> problems;
  double last_s = 0;
  for (const policy::Job& job : workload.jobs) {
    const auto problem = [&](const std::string& what) {
      problems.push_back(fmt::format("job \"{}\": {}", job.name, what));
    };
    if (!finite_from_zero(job.submit_s) || job.submit_s < last_s) {
      problem(fmt::format("submitted at {} s, after a job of {} s", job.submit_s, last_s));
    }
    last_s = std::max(last_s, job.submit_s);
    if (job.gpus <= 0 || job.min_gpus <= 0 || job.max_gpus < job.min_gpus) {
      problem(fmt::format("{} GPUs, {} to {}", job.gpus, job.min_gpus, job.max_gpus));
    }
    if (!std::isfinite(job.work) || job.work <= 0) problem(fmt::format("{} iterations to do", job.work));
    if (!std::isfinite(job.weight) || job.weight <= 0) problem(fmt::format("weight {}", job.weight));
  }
  return problems;
}

std::vector<std::string> fleet_problems(const policy::Fleet& fleet, const policy::Availability* availability) {
  std::vector<std::string> problems;
  const int types = static_cast<int>(fleet.types.size());
  const int hosts = static_cast<int>(fleet.hosts.size());
  if (hosts == 0) problems.push_back("the fleet has no hosts");
  for (int k = 0; k < hosts; ++k) {
    const policy::HostSpec& host = fleet.hosts[static_cast<size_t>(k)];
    if (!host.type.valid() || host.type.value >= types || host.gpus <= 0) {
      problems.push_back(fmt::format("host {}: {} GPUs of type {}, of {} types", k, host.gpus, host.type.value, types));
    }
  }
  if (availability == nullptr) return problems;
  if (!availability->up.empty() && availability->up.size() != fleet.hosts.size()) {
    problems.push_back(fmt::format("availability is given for {} hosts of {}", availability->up.size(), hosts));
  }
  double last_s = 0;
  for (const policy::FleetEvent& event : availability->events) {
    if (!finite_from_zero(event.at_s) || event.at_s < last_s) {
      problems.push_back(fmt::format("a fleet event at {} s after one at {} s", event.at_s, last_s));
    }
    last_s = std::max(last_s, event.at_s);
    for (const HostId host : event.hosts) {
      if (host.valid() && host.value < hosts) continue;
      problems.push_back(fmt::format("a fleet event at {} s names host {}, of {}", event.at_s, host.value, hosts));
    }
    if (event.kind == policy::FleetEvent::Kind::kPrice &&
        (!event.type.valid() || event.type.value >= types || !finite_from_zero(event.price))) {
      problems.push_back(fmt::format("price {} of GPU type {} at {} s", event.price, event.type.value, event.at_s));
    }
  }
  return problems;
}

}  // namespace
}  // namespace internal

absl::StatusOr<policy::Outcome> run(const Setup& setup) {
  SCALAI_CHECK(setup.workload != nullptr && setup.fleet != nullptr && setup.throughput != nullptr &&
               setup.policy != nullptr && setup.changes != nullptr);
  std::vector<std::string> problems = internal::workload_problems(*setup.workload);
  for (std::string& problem : internal::fleet_problems(*setup.fleet, setup.availability)) {
    problems.push_back(std::move(problem));
  }
  for (std::string& problem : internal::window_problems(setup.options.window, setup.workload->jobs.size())) {
    problems.push_back(std::move(problem));
  }
  if (!problems.empty()) {
    const size_t all = problems.size();
    if (all > 20) problems.resize(20);
    return invalid(
        fmt::format("{}{}", fmt::join(problems, "\n"), all > 20 ? fmt::format("\n({} more)", all - 20) : ""));
  }
  if (auto* fluid = dynamic_cast<policy::FluidPolicy*>(setup.policy)) return run_fluid(setup, *fluid);
  return internal::Engine(setup).run();
}

}  // namespace scalai::jobs
