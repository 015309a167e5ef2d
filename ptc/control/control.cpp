#include "ptc/control/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/collection/megatron.h"
#include "ptc/control/internal/control_impl.h"
#include "ptc/plan/estimate.h"

namespace scalai::control {

Control::Control(const Scenario& scenario, Strategy strategy, const parallel::StepTimeModel& step_time,
                 const ControlOptions& options)
    : impl_(std::make_unique<Impl>(scenario, std::move(strategy), step_time, options)) {}
Control::~Control() = default;
std::vector<Command> Control::step(const Event& event) { return impl_->step(event); }
RunReport Control::report(double at_s) const { return impl_->report(at_s); }
std::vector<JobStatus> Control::status(double at_s) const { return impl_->status(at_s); }
const std::vector<std::shared_ptr<const plan::Plan>>& Control::plans() const { return impl_->plans(); }
const absl::Status& Control::policy_status() const { return impl_->policy_status(); }

Control::Impl::Impl(const Scenario& scenario, Strategy strategy, const parallel::StepTimeModel& step_time,
                    const ControlOptions& options)
    : scenario_(scenario),
      strategy_(std::move(strategy)),
      step_time_(step_time),
      options_(options),
      chooser_(scenario.cluster),
      fired_(scenario.events.size(), false) {
  for (size_t i = 0; i < scenario.jobs.size(); ++i) {
    Job job;
    job.index = static_cast<int>(i);
    job.spec = &scenario.jobs[i];
    job.wanted_gpus = job.spec->gpus;
    job.wanted_devices = job.spec->devices;
    job.record.name = job.spec->name;
    job.schedule = {.submit_s = job.spec->submit_s, .first_start_s = {}, .deadline_s = job.spec->deadline_s};
    if (job.spec->dataset) job.ledger.emplace(job.spec->dataset->state, options.reads_samples);
    jobs_.push_back(std::move(job));
    arrivals_.push_back(static_cast<int>(i));
  }
  std::stable_sort(arrivals_.begin(), arrivals_.end(), [&](int a, int b) {
    return scenario.jobs[static_cast<size_t>(a)].submit_s < scenario.jobs[static_cast<size_t>(b)].submit_s;
  });
  begin_policy(options.policy);
}

std::vector<Command> Control::Impl::step(const Event& event) {
  SCALAI_CHECK(event.at_s >= now_s_, "events go forward in time");
  now_s_ = event.at_s;
  commands_.clear();
  if (over_) return {};
  events_.push_back(event);
  if (ending_ && !std::holds_alternative<SamplesRead>(event.body)) return {};
  std::visit([this](const auto& body) { on(body); }, event.body);
  const auto unsettled = [this] {
    return !ending_ && !(freed_by_.empty() && policy_events_.empty() && policy_changes_.empty());
  };
  while (unsettled()) {
    consult();
    follow();
    const std::string name = std::exchange(freed_by_, {});
    if (name.empty()) continue;
    for (const int index : arrivals_) {  // devices that a job has left may be what another wants
      Job& job = jobs_[static_cast<size_t>(index)];
      retarget(job, policy_ == nullptr ? "devices of " + name + " are free" : job.granted_why);
    }
  }
  keep_pace();
  return std::move(commands_);
}

// ---- events -----------------------------------------------------------------------------------------------------

void Control::Impl::on(const Started&) {
  if (scenario_.until_s) arm(*scenario_.until_s, kUntil);
  if (!scenario_.absent.empty()) {
    dead_.insert(scenario_.absent.begin(), scenario_.absent.end());
    commands_.push_back(Inject{.what = Fail{.devices = scenario_.absent, .links = {}}, .detect_s = 0});
  }
  double last_s = 0;
  for (const int index : arrivals_) {
    Job& job = jobs_[static_cast<size_t>(index)];
    const double submit_s = job.spec->submit_s;
    if (submit_s <= 0) submit(job);
    if (submit_s > last_s) arm(last_s = submit_s, kArrival);  // all that come at that time
  }
  consult();
  policy_changes_.clear();  // nobody has to move yet
  for (Job& job : jobs_) {
    if (job.submitted && !job.over()) start_at_once(job);
  }
  for (Job& job : jobs_) {  // not before all of them are there: they may slow each other
    if (job.mode == Mode::kTraining) start_training(job);
  }
  for (size_t i = 0; i < scenario_.events.size(); ++i) {
    if (const auto* at = std::get_if<AtTime>(&scenario_.events[i].when)) arm(at->at_s, static_cast<int>(i));
  }
}

void Control::Impl::submit(Job& job) {
  job.submitted = true;
  job.span_since_s = job.allocated_since_s = job.granted_at_s = now_s_;
  tell_policy(sched::Event::Kind::kSubmitted, job.index);
}

void Control::Impl::start_at_once(Job& job) {
  const std::optional<Target> target = choose_target(job);
  if (!target) return wait(job);
  job.choice = target->choice;
  allocate(job, target->devices);
  auto built = collection::megatron_collection(job.spec->model, job.spec->recipe, job.choice->config, job.devices);
  SCALAI_CHECK(built.ok(), message_of(built.status()));
  job.state = {.step = 0,
               .collection = std::make_shared<collection::Collection>(std::move(built).value()),
               .gone = {},
               .made_s = now_s_};
  if (job.spec->checkpoint.every_steps > 0) job.checkpoint = initial(job.state);  // it is in storage
  sample_memory(job);
  job.mode = Mode::kTraining;
}

void Control::Impl::on(const StepReached& event) {
  Job& job = jobs_[static_cast<size_t>(event.job)];
  if (job.mode != Mode::kTraining && job.mode != Mode::kStopping) return;
  credit_training(job, event.step);
  job.training.until_step = event.step;  // at a boundary: nothing runs until the next Train
  fire_reached(job);
  if (job.spec->steps > 0 && event.step >= job.spec->steps) return complete(job);
  if (stopping_) return start_last_copy(job);
  const double stall_s = start_snapshots(job);
  if (job.mode == Mode::kStopping && !settled(job)) return begin_reconfiguration(job);
  job.mode = Mode::kTraining;  // also when what was asked for has been taken back
  start_training(job, stall_s);
}

void Control::Impl::on(const RoundDone& event) {
  Job& job = jobs_[static_cast<size_t>(event.job)];
  if (!job.underway) return;
  job.underway->torn = job.underway->torn || (event.round > 0 && plan::frees_early(*job.underway->record.plan));
  const int reconfiguration = job.underway->record.index;
  for (size_t i = 0; i < scenario_.events.size(); ++i) {
    const auto* during = std::get_if<During>(&scenario_.events[i].when);
    if (during == nullptr || fired_[i] || during->job != event.job) continue;
    if (during->reconfiguration != reconfiguration || during->after_round != event.round) continue;
    if (during->delay_s > 0) {
      fired_[i] = true;
      arm(now_s_ + during->delay_s, static_cast<int>(i));
    } else {
      fire(i);
    }
  }
}

void Control::Impl::on(const ExecutionDone& event) {
  Job& job = jobs_[static_cast<size_t>(event.job)];
  if (job.mode == Mode::kReconfiguring) commit(job, event.phases);
}

void Control::Impl::on(const BackgroundDone& event) {
  Job& job = jobs_[static_cast<size_t>(event.job)];
  const auto found = job.in_flight.find(event.tag);
  if (found == job.in_flight.end()) return;  // a device of it was lost on the way
  auto& [is_checkpoint, holding] = found->second;
  std::optional<Holding>& last = is_checkpoint ? job.checkpoint : job.redundant;
  if (last) commands_.push_back(Forget{job.index, last->snapshot});
  last = std::move(holding);
  job.in_flight.erase(found);
  if (job.last_copy == event.tag) stop(job);
}

void Control::Impl::on(const TimerFired& event) {
  const auto [index, deadline] = timers_.at(static_cast<size_t>(event.timer));
  if (index == kUntil) {
    for (Job& job : jobs_) {
      if (job.ledger && job.moves()) credit_training(job, job.training.steps_done_at(now_s_));
    }
    end();
  } else if (index == kArrival) {
    for (const int next : arrivals_) {
      Job& job = jobs_[static_cast<size_t>(next)];
      if (job.submitted || job.over() || job.spec->submit_s > now_s_) continue;
      submit(job);
      if (policy_ == nullptr) retarget(job, "submitted");
    }
  } else if (index == kWake) {
    if (!wake_up_ || wake_up_->first != event.timer) return;
    wake_up_.reset();
    tell_policy(sched::Event::Kind::kTimer);
  } else if (deadline) {
    // A repair before the deadline has taken the notice back.
    Fail fail{.devices = std::get<Preempt>(scenario_.events[static_cast<size_t>(index)].what).devices, .links = {}};
    std::erase_if(fail.devices, [&](DeviceId device) { return draining_.count(device) == 0; });
    if (!fail.devices.empty()) apply(fail);
  } else {
    fire(static_cast<size_t>(index));
  }
}

void Control::Impl::on(const DevicesLost& event) {
  const std::set<DeviceId> lost(event.devices.begin(), event.devices.end());
  for (const DeviceId device : lost) {
    const auto repaired = repaired_at_s_.find(device);
    if (repaired == repaired_at_s_.end() || repaired->second < event.failed_at_s) dead_.insert(device);
  }
  const auto forget = [&](Holding& holding) {
    for (const DeviceId device : lost) {
      if (lost_since(device, holding.made_s)) holding.gone.insert(device);
    }
  };
  for (Job& job : jobs_) {
    forget(job.state);
    if (job.checkpoint) forget(*job.checkpoint);
    if (job.redundant) forget(*job.redundant);
    // A copy that a device of it, or a host that was to keep some of it, did not live to see never arrives.
    drop_in_flight(job, [&](const Holding& holding) {
      const std::vector<DeviceId>& devices = holding.collection->device_of_rank;
      const auto is_lost = [&](DeviceId device) { return lost.contains(device); };
      return std::any_of(devices.begin(), devices.end(), is_lost) ||
             std::any_of(holding.copies.begin(), holding.copies.end(), [&](const collection::ExtraHolder& copy) {
               const std::vector<DeviceId> own = scenario_.cluster.devices_of(copy.host);
               return std::any_of(own.begin(), own.end(), is_lost) &&
                      std::all_of(own.begin(), own.end(),
                                  [&](DeviceId device) { return is_lost(device) || dead_.contains(device); });
             });
    });
  }
  const std::string cause = "lost " + device_list(event.devices);
  std::set<DeviceId> down;  // but for those that are back
  std::copy_if(lost.begin(), lost.end(), std::inserter(down, down.end()),
               [&](DeviceId device) { return dead_.count(device) != 0; });
  take_grants(down, cause);
  consult();
  for (Job& job : jobs_) lose_devices(job, lost, event.failed_at_s, cause);
}

// A device that has failed and was repaired concerns only what was there before the repair.
bool Control::Impl::lost_since(DeviceId device, double made_s) const {
  const auto repaired = repaired_at_s_.find(device);
  return dead_.count(device) != 0 || repaired == repaired_at_s_.end() || made_s <= repaired->second;
}

void Control::Impl::on(const UserDrain& event) {
  leave_devices(event.devices, "drain of " + device_list(event.devices));
}

void Control::Impl::on(const UserStop&) {
  stopping_ = true;
  for (Job& job : jobs_) {
    if (job.mode == Mode::kTraining) stop_at_boundary(job);
    if (job.mode == Mode::kWaiting) stop(job);
  }
}

void Control::Impl::on(const SamplesRead& event) {
  Job& job = jobs_[static_cast<size_t>(event.job)];
  if (!job.ledger) return;
  const absl::Status fits = job.ledger->account(event);
  if (!fits.ok()) misread(job, message_of(fits));
  if (ending_) end();
}

void Control::Impl::on(const UserResize& event) { apply(Resize{.job = event.job, .gpus = event.gpus}); }

// ---- the scenario's script ----------------------------------------------------------------------------------------

void Control::Impl::arm(double at_s, int event) {
  commands_.push_back(ArmTimer{.timer = static_cast<int64_t>(timers_.size()), .at_s = at_s});
  timers_.emplace_back(event, false);
}

void Control::Impl::fire(size_t event) {
  fired_[event] = true;
  std::visit([this](const auto& what) { apply(what); }, scenario_.events[event].what);
  if (const auto* preempt = std::get_if<Preempt>(&scenario_.events[event].what)) {
    arm(now_s_ + preempt->notice_s, static_cast<int>(event));
    timers_.back().second = true;
  }
}

void Control::Impl::fire_reached(const Job& job) {
  for (size_t i = 0; i < scenario_.events.size(); ++i) {
    const auto* at = std::get_if<AtStep>(&scenario_.events[i].when);
    if (at != nullptr && at->job == job.index && at->step <= job.state.step && !fired_[i]) fire(i);
  }
}

void Control::Impl::apply(const Resize& what) {
  Job& job = jobs_[static_cast<size_t>(what.job)];
  if (policy_ != nullptr) {  // of what the policy gives it uses no more
    limits_[what.job] = what.gpus;
    policy_view_->limit(what.job, what.gpus);
    want_granted(job);
    policy_changes_[what.job] = fmt::format("resize to {}", what.gpus);
    return tell_policy(sched::Event::Kind::kCapacity);
  }
  job.wanted_gpus = what.gpus;
  job.wanted_devices.clear();
  retarget(job, fmt::format("resize to {}", what.gpus));
}

void Control::Impl::apply(const Redeploy& what) {
  Job& job = jobs_[static_cast<size_t>(what.job)];
  job.wanted_gpus = static_cast<int>(what.devices.size());
  job.wanted_devices = what.devices;
  retarget(job, "redeploy", /*forced=*/true);
}

void Control::Impl::apply(const Fail& what) {
  for (const DeviceId device : what.devices) repaired_at_s_.erase(device);  // this failure comes after any repair
  for (const std::string& link : what.links) links_[link] = 0;
  commands_.push_back(Inject{.what = what, .detect_s = strategy_.costs.detect_s});
}

void Control::Impl::apply(const Repair& what) {
  commands_.push_back(Inject{.what = what, .detect_s = 0});
  for (const DeviceId device : what.devices) {
    dead_.erase(device);
    draining_.erase(device);
    speed_.erase(device);
    repaired_at_s_[device] = now_s_;
  }
  for (const std::string& link : what.links) links_.erase(link);
  if (what.devices.empty()) return;
  tell_policy(sched::Event::Kind::kCapacity);
  if (policy_ != nullptr) return;
  for (Job& job : jobs_) retarget(job, "repair of " + device_list(what.devices));
}

void Control::Impl::apply(const Degrade& event) {
  Degrade what = event;
  std::erase_if(what.links, [&](const std::string& link) {  // only a repair brings back what is down
    const auto now = links_.find(link);
    return now != links_.end() && now->second == 0;
  });
  commands_.push_back(Inject{.what = what, .detect_s = 0});
  const auto note = [&](auto& shares, const auto& name) {
    if (what.factor == 1)
      shares.erase(name);
    else
      shares[name] = what.factor;
  };
  for (const DeviceId device : what.devices) note(speed_, device);
  for (const std::string& link : what.links) note(links_, link);
}

void Control::Impl::apply(const Preempt& what) {
  leave_devices(what.devices, "preemption of " + device_list(what.devices));
}

void Control::Impl::leave_devices(const std::vector<DeviceId>& devices, const std::string& cause) {
  draining_.insert(devices.begin(), devices.end());
  take_grants({devices.begin(), devices.end()}, cause);
  if (policy_ != nullptr) return;  // it is asked first
  for (Job& job : jobs_) retarget(job, cause);
}

// ---- training -----------------------------------------------------------------------------------------------------

void Control::Impl::retarget(Job& job, const std::string& cause, bool forced) {
  if (job.over() || !job.submitted) return;
  job.forced = job.forced || forced;
  if (job.mode == Mode::kStopping) return;
  if (job.mode == Mode::kReconfiguring) {
    job.change_asked = true;
    job.cause = cause;
    job.cause_s = now_s_;
    return;
  }
  const bool stays = job.mode == Mode::kWaiting ? !choose_target(job) : settled(job);
  if (stays) return;
  job.cause = cause;
  job.cause_s = now_s_;
  job.failed_s = -1;
  if (job.mode == Mode::kWaiting) return begin_reconfiguration(job);
  job.mode = Mode::kStopping;
  stop_at_boundary(job);
}

void Control::Impl::lose_devices(Job& job, const std::set<DeviceId>& lost, double failed_at_s,
                                 const std::string& cause) {
  const auto among = [&](const std::vector<DeviceId>& devices, double made_s) {
    return std::any_of(devices.begin(), devices.end(),
                       [&](DeviceId device) { return lost.count(device) != 0 && lost_since(device, made_s); });
  };
  if (job.moves()) {
    if (!among(job.devices, job.state.made_s)) return;
    commands_.push_back(Halt{.job = job.index});
    credit_training(job, job.training.steps_done_at(failed_at_s));
    job.cause = cause;
    job.cause_s = job.failed_s = failed_at_s;
    begin_reconfiguration(job);
  } else if (job.mode == Mode::kReconfiguring) {
    Underway& underway = *job.underway;
    // An attempt that a repair has set off began after it, at the same time.
    const double attempt_s = std::nextafter(underway.attempt_s, std::numeric_limits<double>::infinity());
    const bool target = among(underway.target.devices, attempt_s);
    if (!target && !among(underway.record.plan->src_devices, job.state.made_s)) return;
    commands_.push_back(Abort{.job = job.index});
    if (std::exchange(underway.torn, false)) {
      const std::vector<DeviceId>& held = job.state.collection->device_of_rank;
      job.state.gone.insert(held.begin(), held.end());
    }
    underway.record.cause += "; " + cause;
    underway.record.phases.aborted += now_s_ - underway.attempt_s;
    ++underway.record.aborted_attempts;
    if (policy_ != nullptr) freed_by_ = job.spec->name;  // it may go elsewhere now
    spans_.push_back({job.index, "aborted", underway.attempt_s, now_s_, underway.target.devices});
    begin_attempt(job);
  }
}

void Control::Impl::stop(Job& job) {
  end_span(job, job.mode == Mode::kWaiting ? "waiting" : "train", now_s_);
  job.mode = Mode::kStopped;
  job.record.failure.clear();  // what it waited for
  job.record.wall_s = std::max(0.0, now_s_ - job.spec->submit_s);
  leave_policy(job);
  stop_if_over();
}

void Control::Impl::complete(Job& job) {
  end_span(job, "train", now_s_);
  job.mode = Mode::kComplete;
  job.record.wall_s = now_s_ - job.spec->submit_s;
  allocate(job, {});
  leave_policy(job);
  stop_if_over();
}

void Control::Impl::stop_if_over() {
  if (std::all_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.over(); })) end();
}

void Control::Impl::end() {
  if (over_) return;
  ending_ = true;
  over_ = std::none_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.ledger && job.ledger->awaits(); });
  if (over_) commands_.push_back(Stop{});
}

}  // namespace scalai::control
