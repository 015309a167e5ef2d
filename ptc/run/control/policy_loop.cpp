#include "ptc/run/control/internal/policy_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::control {
namespace {

using Kind = PolicyLoop::Kind;

// In the order in which a policy hears of what happens at one time.
int precedence(Kind kind) {
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

bool same(const policy::Event& a, const policy::Event& b) { return a.kind == b.kind && a.job == b.job; }

}  // namespace

PolicyLoop::PolicyLoop(const scenario::Scenario& scenario, const scenario::Strategy& strategy, Jobs& jobs,
                       const Condition& condition, const Turn& turn, policy::Policy* given)
    : scenario_(scenario), jobs_(jobs), condition_(condition), turn_(turn) {
  if (scenario.policy) status_ = begin(given, strategy);
}

absl::Status PolicyLoop::begin(policy::Policy* given, const scenario::Strategy& strategy) {
  const scenario::PolicySpec& spec = *scenario_.policy;
  policy_ = given;
  if (policy_ == nullptr) {
    SCALAI_CHECK(spec.exec.empty(), "a program is asked by way of ControlOptions");
    absl::StatusOr<std::unique_ptr<policy::Policy>> made = policy::make_policy(spec.name, spec.set, scenario_.seed);
    if (!made.ok()) return made.status();
    own_policy_ = *std::move(made);
    policy_ = own_policy_.get();
  }
  view_ = std::make_unique<PolicyView>(scenario_, strategy);
  show();
  return policy_->begin(*view_);
}

void PolicyLoop::tell(Kind kind, int job) {
  if (policy_ == nullptr) return;
  const policy::Event event{.kind = kind, .job = job < 0 ? policy::JobId() : policy::JobId(job)};
  const bool told =
      std::any_of(told_.begin(), told_.end(), [&](const policy::Event& other) { return same(other, event); });
  if (!told) told_.push_back(event);
}

void PolicyLoop::take_grants(const std::set<DeviceId>& devices, const std::string& cause) {
  if (policy_ == nullptr) return;
  tell(Kind::kCapacity);
  for (Job& job : jobs_) {
    const bool hit = std::any_of(job.grant.devices.begin(), job.grant.devices.end(),
                                 [&](DeviceId device) { return devices.count(device) != 0; });
    if (!hit) continue;
    job.grant.devices.clear();
    job.grant.at_s = turn_.now_s;
    want_granted(job);
    tell(Kind::kLost, job.index);
    changes_[job.index] = cause;
  }
}

void PolicyLoop::leave(Job& job) {
  if (policy_ == nullptr || !job.submitted) return;
  job.grant.devices.clear();
  job.wanted.devices.clear();
  changes_.erase(job.index);
  tell(Kind::kFinished, job.index);
}

void PolicyLoop::limit(Job& job, int gpus) {
  job.grant.gpu_limit = gpus;
  view_->limit(job.index, gpus);
  want_granted(job);
  changes_[job.index] = fmt::format("resize to {}", gpus);
  tell(Kind::kCapacity);
}

void PolicyLoop::wake(int64_t timer) {
  if (!wake_up_ || wake_up_->first != timer) return;
  wake_up_.reset();
  tell(Kind::kTimer);
}

void PolicyLoop::show() {
  PolicyView& view = *view_;
  view.set_now(turn_.now_s);
  view.set_usable(standing().usable);
  std::vector<policy::JobId> active;
  for (const Job& job : jobs_) {
    if (job.submitted && !job.over()) active.emplace_back(job.index);
    const double held_s = job.devices.empty() ? 0 : turn_.now_s - job.accounts.allocated_since_s;
    const int64_t steps = job.moves() ? job.training.steps_done_at(turn_.now_s) : job.state.step;
    view.set_progress(job.index, {.work_done = static_cast<double>(steps),
                                  .attained_gpu_s = job.accounts.record.gpu_hours * 3600 +
                                                    static_cast<double>(job.devices.size()) * held_s,
                                  .executed_s = job.accounts.held_s + held_s,
                                  .first_start_s = job.accounts.schedule.first_start_s.value_or(policy::kNever),
                                  .last_change_s = job.grant.at_s,
                                  .restarts = job.accounts.schedule.restarts,
                                  .placement = view.placement_of(job.grant.devices),
                                  .beside = {}});
  }
  view.set_active(std::move(active));
}

Standing PolicyLoop::standing() const {
  const auto devices = static_cast<size_t>(scenario_.cluster.device_count());
  Standing now{
      .granted = {}, .home = {}, .usable = std::vector<char>(devices, 0), .held = std::vector<char>(devices, 0)};
  for (size_t i = 0; i < devices; ++i) now.usable[i] = condition_.usable(DeviceId(static_cast<int>(i))) ? 1 : 0;
  for (const Job& job : jobs_) {
    now.granted.push_back(job.grant.devices);
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

std::optional<PolicyLoop::Answer> PolicyLoop::ask() {
  if (policy_ == nullptr || told_.empty()) return std::nullopt;
  std::vector<policy::Event> events = std::exchange(told_, {});
  std::stable_sort(events.begin(), events.end(), [](const policy::Event& a, const policy::Event& b) {
    return std::pair(precedence(a.kind), a.job) < std::pair(precedence(b.kind), b.job);
  });
  show();
  absl::StatusOr<policy::Decision> decision = policy_->decide(*view_, events);
  status_ = decision.status();
  if (!decision.ok()) return std::nullopt;
  return Answer{.decision = *std::move(decision),
                .only_woken = events.size() == 1 && events.front().kind == Kind::kTimer};
}

policy::Presence PolicyLoop::presence(policy::JobId id) const {
  const Job& job = jobs_[static_cast<int>(id.value)];
  if (!job.submitted) return policy::Presence::kFuture;
  if (job.over()) return policy::Presence::kLeft;
  return job.mode == Mode::kWaiting && job.grant.devices.empty() ? policy::Presence::kWaiting
                                                                 : policy::Presence::kRunning;
}

absl::StatusOr<std::vector<Wish>> PolicyLoop::wishes(const policy::Decision& decision) const {
  SCALAI_ASSIGN_OR_RETURN(const policy::Grants grants,
                          policy::check_decision(decision, *view_,
                                                 {.jobs = static_cast<int64_t>(jobs_.size()),
                                                  .presence = [this](policy::JobId id) { return presence(id); },
                                                  .sharing = false,
                                                  .armed_s = wake_up_ ? wake_up_->second : policy::kNever}));
  return wishes_of(grants, *view_, scenario_.cluster, standing());
}

bool PolicyLoop::grant(const Answer& answer) {
  const absl::StatusOr<std::vector<Wish>> wishes = this->wishes(answer.decision);
  if (!wishes.ok()) {
    status_ = failed(message_of(wishes.status()));  // of a program, too, and that is no bug
    return false;
  }
  for (const Wish& wish : *wishes) note_wish(wish);
  const bool runs = std::any_of(jobs_.begin(), jobs_.end(),
                                [](const Job& job) { return job.moves() || job.mode == Mode::kReconfiguring; });
  idle_wakes_ = answer.only_woken && wishes->empty() && !runs ? idle_wakes_ + 1 : 0;
  return true;
}

// A policy that is woken again and again while nothing runs and nothing changes waits for what never comes: then the
// run may end as one whose jobs are stuck.
void PolicyLoop::arm_wake_up(const Answer& answer, Script& script, Turn& turn) {
  constexpr int kPatience = 1000;
  const double at_s = answer.decision.wake_at_s;
  if (at_s == policy::kNever || idle_wakes_ > kPatience) return wake_up_.reset();
  if (wake_up_ && wake_up_->second == at_s) return;
  wake_up_ = {script.arm(turn, at_s, {.purpose = Timer::Purpose::kWake}), at_s};
}

void PolicyLoop::note_wish(const Wish& wish) {
  Job& job = jobs_[wish.job];
  const std::string& name = scenario_.policy->name.empty() ? scenario_.policy->exec : scenario_.policy->name;
  const size_t before = job.grant.devices.size(), after = wish.devices.size();
  if (before > 0 && after == 0) ++job.accounts.schedule.preemptions;
  std::string& cause = changes_[job.index];  // after a loss it says which
  if (!cause.empty()) cause += "; ";
  cause += before == 0       ? fmt::format("{}: {} GPUs", name, after)
           : after == 0      ? fmt::format("{}: no GPUs", name)
           : before == after ? fmt::format("{}: {} other GPUs", name, after)
                             : fmt::format("{}: {} to {} GPUs", name, before, after);
  job.grant.why = cause;
  job.grant.devices = wish.devices;
  job.grant.at_s = turn_.now_s;
  want_granted(job);
}

// All that the policy gives, unless a user wants the job to have less.
void PolicyLoop::want_granted(Job& job) {
  job.wanted.devices = job.grant.devices;
  if (job.grant.gpu_limit) {
    job.wanted.devices.resize(std::min(job.wanted.devices.size(), static_cast<size_t>(*job.grant.gpu_limit)));
  }
  job.wanted.gpus = static_cast<int>(job.wanted.devices.size());
}

std::optional<PolicyLoop::Change> PolicyLoop::take_change() {
  if (changes_.empty()) return std::nullopt;
  Change change{.job = changes_.begin()->first, .cause = std::move(changes_.begin()->second)};
  changes_.erase(changes_.begin());
  return change;
}

}  // namespace scalai::control
