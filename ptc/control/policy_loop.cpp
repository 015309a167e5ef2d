// Asking the scenario's policy, and doing what it says. A grant is a wish: it becomes devices at once (policy_placer.h) and
// a reconfiguration as soon as those who are on them have left.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/control/internal/control_impl.h"
#include "ptc/control/internal/policy_text.h"
#include "ptc/sched/policies/catalogue.h"

namespace scalai::control {
namespace {

using Kind = sched::Event::Kind;

// In the order in which a policy hears of what happens at one time.
int turn(Kind kind) {
  switch (kind) {
    case Kind::kFinished: return 0;
    case Kind::kLost: return 1;
    case Kind::kCapacity: return 2;
    case Kind::kSubmitted: return 3;
    case Kind::kRate: return 4;
    case Kind::kTimer: return 5;
  }
  return 6;
}

bool same(const sched::Event& a, const sched::Event& b) { return a.kind == b.kind && a.job == b.job; }

}  // namespace

void Control::Impl::begin_policy(sched::Policy* given) {
  if (!scenario_.policy) return;
  const PolicySpec& spec = *scenario_.policy;
  policy_ = given;
  if (policy_ == nullptr) {
    SCALAI_CHECK(spec.exec.empty(), "a program is asked by way of ControlOptions");
    absl::StatusOr<std::unique_ptr<sched::Policy>> made = sched::make_policy(spec.name, spec.set, scenario_.seed);
    if (!made.ok()) return policy_failed(made.status());
    own_policy_ = *std::move(made);
    policy_ = own_policy_.get();
  }
  policy_view_ = std::make_unique<PolicyView>(scenario_, strategy_);
  show_policy();
  const absl::Status begun = policy_->begin(*policy_view_);
  if (!begun.ok()) policy_failed(begun);
}

void Control::Impl::policy_failed(const absl::Status& status) {
  policy_status_ = status;
  over_ = ending_ = true;
}

void Control::Impl::tell_policy(Kind kind, int job) {
  if (policy_ == nullptr) return;
  const sched::Event event{.kind = kind, .job = job < 0 ? sched::JobId() : sched::JobId(job)};
  const bool told = std::any_of(policy_events_.begin(), policy_events_.end(),
                                [&](const sched::Event& other) { return same(other, event); });
  if (!told) policy_events_.push_back(event);
}

void Control::Impl::show_policy() {
  PolicyView& view = *policy_view_;
  view.set_now(now_s_);
  view.set_usable(standing().usable);
  std::vector<sched::JobId> active;
  for (const Job& job : jobs_) {
    if (job.submitted && !job.over()) active.emplace_back(job.index);
    const double held_s = job.devices.empty() ? 0 : now_s_ - job.allocated_since_s;
    const int64_t steps = job.moves() ? job.training.steps_done_at(now_s_) : job.state.step;
    view.set_progress(job.index,
                      {.work_done = static_cast<double>(steps),
                       .attained_gpu_s = job.record.gpu_hours * 3600 + static_cast<double>(job.devices.size()) * held_s,
                       .executed_s = job.held_s + held_s,
                       .first_start_s = job.schedule.first_start_s.value_or(sched::kNever),
                       .last_change_s = job.granted_at_s,
                       .restarts = job.schedule.restarts,
                       .placement = view.placement_of(job.granted),
                       .beside = {}});
  }
  view.set_active(std::move(active));
}

Standing Control::Impl::standing() const {
  const auto devices = static_cast<size_t>(scenario_.cluster.device_count());
  Standing now{
      .granted = {}, .home = {}, .usable = std::vector<char>(devices, 1), .held = std::vector<char>(devices, 0)};
  for (const DeviceId device : dead_) now.usable[static_cast<size_t>(device.value)] = 0;
  for (const DeviceId device : draining_) now.usable[static_cast<size_t>(device.value)] = 0;
  for (const Job& job : jobs_) {
    now.granted.push_back(job.granted);
    const bool homeless = job.devices.empty() && job.state.collection != nullptr;
    now.home.push_back(job.over()     ? std::vector<DeviceId>()
                       : job.underway ? job.underway->target.devices
                       : homeless     ? job.state.collection->device_of_rank
                                      : job.devices);
    for (const DeviceId device : job.devices) now.held[static_cast<size_t>(device.value)] = 1;
    if (!job.underway) continue;
    for (const DeviceId device : job.underway->target.devices) now.held[static_cast<size_t>(device.value)] = 1;
  }
  return now;
}

void Control::Impl::consult() {
  if (policy_ == nullptr || policy_events_.empty() || ending_) return;
  std::vector<sched::Event> events = std::exchange(policy_events_, {});
  std::stable_sort(events.begin(), events.end(), [](const sched::Event& a, const sched::Event& b) {
    return std::pair(turn(a.kind), a.job) < std::pair(turn(b.kind), b.job);
  });
  show_policy();
  absl::StatusOr<sched::Decision> decision = policy_->decide(*policy_view_, events);
  if (!decision.ok()) return policy_failed(decision.status());
  if (!scenario_.policy->exec.empty()) events_.push_back({now_s_, PolicyDecided{decision_text(*decision)}});
  const absl::StatusOr<std::vector<Wish>> wishes = wishes_of(*decision, *policy_view_, scenario_.cluster, standing());
  if (!wishes.ok()) return policy_failed(wishes.status());
  for (const Wish& wish : *wishes) note_wish(wish);
  refuse(decision->refused);
  const bool only_woken = events.size() == 1 && events.front().kind == Kind::kTimer;
  const bool runs = std::any_of(jobs_.begin(), jobs_.end(),
                                [](const Job& job) { return job.moves() || job.mode == Mode::kReconfiguring; });
  idle_wakes_ = only_woken && wishes->empty() && !runs ? idle_wakes_ + 1 : 0;
  if (policy_status_.ok()) wake_policy(decision->wake_at_s);
}

// A policy that is woken again and again while nothing runs and nothing changes waits for what never comes: then the run
// may end as one whose jobs are stuck.
void Control::Impl::wake_policy(double at_s) {
  constexpr int kPatience = 1000;
  if (at_s == sched::kNever || idle_wakes_ > kPatience) return wake_up_.reset();
  if (wake_up_ && wake_up_->second == at_s) return;
  if (!(at_s > now_s_)) {
    return policy_failed(
        failed(fmt::format("the policy asks at {} s to be woken at {} s, which is not later", now_s_, at_s)));
  }
  wake_up_ = {static_cast<int64_t>(timers_.size()), at_s};
  arm(at_s, kWake);
}

void Control::Impl::note_wish(const Wish& wish) {
  Job& job = jobs_[static_cast<size_t>(wish.job)];
  const std::string& name = scenario_.policy->name.empty() ? scenario_.policy->exec : scenario_.policy->name;
  const size_t before = job.granted.size(), after = wish.devices.size();
  if (before > 0 && after == 0) ++job.schedule.preemptions;
  std::string& cause = policy_changes_[job.index];  // after a loss it says which
  if (!cause.empty()) cause += "; ";
  cause += before == 0       ? fmt::format("{}: {} GPUs", name, after)
           : after == 0      ? fmt::format("{}: no GPUs", name)
           : before == after ? fmt::format("{}: {} other GPUs", name, after)
                             : fmt::format("{}: {} to {} GPUs", name, before, after);
  job.granted_why = cause;
  job.granted = wish.devices;
  job.granted_at_s = now_s_;
  want_granted(job);
}

// All that the policy gives, unless a user wants the job to have less.
void Control::Impl::want_granted(Job& job) {
  job.wanted_devices = job.granted;
  if (const auto limit = limits_.find(job.index); limit != limits_.end()) {
    job.wanted_devices.resize(std::min(job.wanted_devices.size(), static_cast<size_t>(limit->second)));
  }
  job.wanted_gpus = static_cast<int>(job.wanted_devices.size());
}

void Control::Impl::follow() {
  while (!policy_changes_.empty() && !ending_) {
    const auto [index, cause] = *policy_changes_.begin();
    policy_changes_.erase(policy_changes_.begin());
    retarget(jobs_[static_cast<size_t>(index)], cause);
  }
}

void Control::Impl::take_grants(const std::set<DeviceId>& devices, const std::string& cause) {
  if (policy_ == nullptr) return;
  tell_policy(Kind::kCapacity);
  for (Job& job : jobs_) {
    const bool hit = std::any_of(job.granted.begin(), job.granted.end(),
                                 [&](DeviceId device) { return devices.count(device) != 0; });
    if (!hit) continue;
    job.granted.clear();
    job.granted_at_s = now_s_;
    want_granted(job);
    tell_policy(Kind::kLost, job.index);
    policy_changes_[job.index] = cause;
  }
}

void Control::Impl::leave_policy(Job& job) {
  if (policy_ == nullptr || !job.submitted) return;
  job.granted.clear();
  job.wanted_devices.clear();
  policy_changes_.erase(job.index);
  tell_policy(Kind::kFinished, job.index);
}

void Control::Impl::refuse(const std::vector<sched::JobId>& jobs) {
  for (const sched::JobId id : jobs) {
    const bool there = id.value >= 0 && id.value < static_cast<int>(jobs_.size());
    Job* job = there ? &jobs_[static_cast<size_t>(id.value)] : nullptr;
    const bool waits = there && job->submitted && job->mode == Mode::kWaiting && job->granted.empty();
    if (!waits) {
      return policy_failed(
          failed(fmt::format("the policy refuses job {}, which does not wait for GPUs",
                             there ? fmt::format("\"{}\"", job->spec->name) : fmt::format("{}", id.value))));
    }
    end_span(*job, "waiting", now_s_);
    job->mode = Mode::kRefused;
    allocate(*job, {});
    job->record.wall_s = now_s_ - job->spec->submit_s;
    policy_changes_.erase(job->index);
    stop_if_over();
  }
}

// ---- devices that others are on --------------------------------------------------------------------------------------

std::set<int> Control::Impl::in_the_way(const Job& job) const {
  const std::set<DeviceId> wanted(job.wanted_devices.begin(), job.wanted_devices.end());
  const auto any_wanted = [&](const std::vector<DeviceId>& devices) {
    return std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return wanted.count(device) != 0; });
  };
  std::set<int> others;
  for (const Job& other : jobs_) {
    if (other.index == job.index) continue;
    if (any_wanted(other.devices) || (other.underway && any_wanted(other.underway->target.devices)))
      others.insert(other.index);
  }
  return others;
}

bool Control::Impl::blocked(const Job& job) const { return !in_the_way(job).empty(); }

// Who has to move before it can, and before they can, and so on.
std::set<int> Control::Impl::waits_for(int job) const {
  std::set<int> reached;
  std::vector<int> next = {job};
  while (!next.empty()) {
    const Job& at = jobs_[static_cast<size_t>(next.back())];
    next.pop_back();
    for (const int other : in_the_way(at)) {
      if (reached.insert(other).second) next.push_back(other);
    }
  }
  return reached;
}

bool Control::Impl::gives_way(const Job& job) const {
  const std::set<int> others = waits_for(job.index);
  const auto in_circle = [&](int other) { return waits_for(other).count(job.index) != 0; };
  return others.count(job.index) != 0 && job.index == *std::find_if(others.begin(), others.end(), in_circle);
}

// It goes on where it is while others are on the devices that it is to have.
bool Control::Impl::may_stay(const Job& job) const {
  return job.choice != nullptr && job.devices.size() == static_cast<size_t>(job.choice->config.world()) &&
         std::none_of(job.devices.begin(), job.devices.end(),
                      [&](DeviceId device) { return dead_.count(device) != 0; });
}

}  // namespace scalai::control
