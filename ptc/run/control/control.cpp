#include "ptc/run/control/control.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/plan/estimate.h"
#include "ptc/run/control/internal/change_planner.h"
#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/jobs.h"
#include "ptc/run/control/internal/lifecycle.h"
#include "ptc/run/control/internal/notices.h"
#include "ptc/run/control/internal/policy_loop.h"
#include "ptc/run/control/internal/policy_text.h"
#include "ptc/run/control/internal/reconfigurer.h"
#include "ptc/run/control/internal/run_records.h"
#include "ptc/run/control/internal/script.h"
#include "ptc/run/control/internal/snapshots.h"
#include "ptc/run/control/internal/targets.h"
#include "ptc/run/control/internal/trainer.h"
#include "ptc/run/control/internal/turn.h"

namespace scalai::control {

// Takes each event to the parts that answer it (ptc/run/control/README.md has the drawing).
class Control::Impl {
 public:
  Impl(const scenario::Scenario& scenario, scenario::Strategy strategy, const step::StepTimeModel& step_time,
       const ControlOptions& options);

  std::vector<Command> step(const Event& event);
  RunReport report(double at_s) const { return records_.report(strategy_.name, script_.unreached(), at_s); }
  const RunRecords& records() const { return records_; }
  const absl::Status& policy_status() const { return policy_.status(); }

 private:
  // ---- events
  void on(const Started&);
  void on(const StepReached& event);
  void on(const RoundDone& event);
  void on(const ExecutionDone& event);
  void on(const BackgroundDone& event);
  void on(const TimerFired& event);
  void on(const DevicesLost& event);
  void on(const UserResize& event);
  void on(const UserDrain& event);
  void on(const UserStop& event);
  void on(const UserSave& event);
  void on(const SamplesRead& event);
  void on(const CopyLost& event);
  void on(const PolicyDecided&) {}  // of a log; nobody gives it to the control loop
  void log(Event event) { turn_.logged = records_.log(std::move(event)); }

  // ---- the scenario's script
  void fire(size_t event);  // the scenario's event of this index happens now
  void apply(const scenario::Resize& what);
  void apply(const scenario::Redeploy& what);
  void apply(const scenario::Fail& what);
  void apply(const scenario::Repair& what);
  void apply(const scenario::Degrade& what);
  void apply(const scenario::Preempt& what);
  void leave_devices(const std::vector<DeviceId>& devices, const std::string& cause,
                     std::optional<double> deadline_s = std::nullopt, bool at_once = false);
  // The job trains on devices that will be taken: it goes on until it has to leave, or leaves now. False: it does not.
  bool answer_notice(Job& job, const std::string& cause = "", bool at_once = false);
  void notice_is_over(const scenario::Preempt& what);
  void cut_off(const Timer& timer);  // links are down, and jobs leave what they cut off

  // ---- jobs
  void submit(Job& job);
  void submit_arrivals();
  // Where the job stands may no longer be what it wants: finds out, and stops it at the next step boundary if so.
  void retarget(Job& job, const std::string& cause, bool forced = false);
  // At a step boundary: the job trains on, or changes as it is asked to, and writes a checkpoint first if need be.
  void go_on(Job& job, double stall_s = 0);
  // Asks the policy if it was told anything, and notes what its answer changes; no job moves yet.
  void consult();
  // Moves jobs until the policy's answers and the devices that others have left are of no more consequence.
  void settle();

  const scenario::Strategy strategy_;
  Turn turn_;
  Jobs jobs_;
  RunRecords records_;
  Condition condition_;
  Script script_;
  Snapshots snapshots_;
  Trainer trainer_;
  ChangePlanner planner_;
  Targets targets_;
  Notices notices_;
  PolicyLoop policy_;
  Lifecycle lifecycle_;
  Reconfigurer reconfigurer_;
  std::set<int> staying_;  // jobs that stand still until links are back
  std::vector<int> hit_;   // jobs, by the loss that is the event at hand
};

Control::Control(const scenario::Scenario& scenario, scenario::Strategy strategy, const step::StepTimeModel& step_time,
                 const ControlOptions& options)
    : impl_(std::make_unique<Impl>(scenario, std::move(strategy), step_time, options)) {}
Control::~Control() = default;
std::vector<Command> Control::step(const Event& event) { return impl_->step(event); }
RunReport Control::report(double at_s) const { return impl_->report(at_s); }
std::vector<JobStatus> Control::status(double at_s) const { return impl_->records().status(at_s); }
const std::vector<LossRecord>& Control::losses() const { return impl_->records().losses(); }
const std::vector<plan::Plan>& Control::plans() const { return impl_->records().plans(); }
const absl::Status& Control::policy_status() const { return impl_->policy_status(); }

Control::Impl::Impl(const scenario::Scenario& scenario, scenario::Strategy strategy,
                    const step::StepTimeModel& step_time, const ControlOptions& options)
    : strategy_(std::move(strategy)),
      jobs_(scenario, options.reads_samples),
      records_(scenario, jobs_),
      condition_(scenario.cluster),
      script_(scenario),
      snapshots_(condition_, turn_),
      trainer_(condition_, script_, jobs_, step_time, turn_),
      planner_(scenario, strategy_, condition_, options.check_plans),
      targets_(scenario, strategy_, condition_, jobs_, planner_, turn_),
      notices_(condition_, planner_, targets_, script_, trainer_, snapshots_, turn_,
               Evacuator(strategy_, condition_, jobs_, planner_, targets_, turn_)),
      policy_(scenario, strategy_, jobs_, condition_, turn_, options.policy),
      lifecycle_(jobs_, records_, snapshots_, policy_, turn_),
      reconfigurer_(scenario, condition_, planner_, targets_, trainer_, snapshots_, lifecycle_, records_, turn_) {
  const std::vector<cluster::Host>& hosts = scenario.cluster.hosts;
  if (std::any_of(hosts.begin(), hosts.end(), [](const cluster::Host& host) { return host.price_per_hour > 0; })) {
    for (const cluster::Host& host : hosts)
      turn_.usd_per_h.insert(turn_.usd_per_h.end(), static_cast<size_t>(host.gpus), host.price_per_hour / host.gpus);
  }
  if (!policy_.status().ok()) lifecycle_.give_up();
}

std::vector<Command> Control::Impl::step(const Event& event) {
  SCALAI_CHECK(event.at_s >= turn_.now_s, "events go forward in time");
  turn_.now_s = event.at_s;
  turn_.commands.clear();
  if (lifecycle_.over()) return {};
  log(event);
  if (lifecycle_.ending() && !std::holds_alternative<SamplesRead>(event.body)) return {};
  std::visit([this](const auto& body) { on(body); }, event.body);
  settle();
  if (std::holds_alternative<DevicesLost>(event.body)) records_.add_effects(std::exchange(hit_, {}));
  if (!lifecycle_.ending()) trainer_.update_step_times();
  return std::move(turn_.commands);
}

void Control::Impl::settle() {
  while (!lifecycle_.ending() && (!turn_.freed_by.empty() || policy_.unsettled())) {
    consult();
    while (!lifecycle_.ending()) {
      const std::optional<PolicyLoop::Change> change = policy_.take_change();
      if (!change) break;
      retarget(jobs_[change->job], change->cause);
    }
    const std::string name = std::exchange(turn_.freed_by, {});
    if (name.empty()) continue;
    for (const int index : jobs_.arrivals()) {  // devices that a job has left may be what another wants
      Job& job = jobs_[index];
      retarget(job, policy_.active() ? job.grant.why : "devices of " + name + " are free");
    }
  }
}

// ---- events -----------------------------------------------------------------------------------------------------

void Control::Impl::on(const Started&) {
  script_.arm_end(turn_);
  const std::vector<DeviceId>& absent = script_.absent();
  if (!absent.empty()) {
    condition_.set_absent(absent);
    turn_.commands.push_back(
        Inject{.what = scenario::Fail{.devices = absent, .links = {}, .hangs = false}, .detect_s = 0});
  }
  double last_s = 0;
  for (const int index : jobs_.arrivals()) {
    Job& job = jobs_[index];
    const double submit_s = job.spec->submit_s;
    if (submit_s <= 0) submit(job);
    if (submit_s > last_s)  // all that come at that time
      script_.arm(turn_, last_s = submit_s, {.purpose = Timer::Purpose::kArrival});
  }
  consult();
  policy_.drop_changes();  // nobody has to move yet
  for (Job& job : jobs_) {
    if (job.submitted && !job.over()) reconfigurer_.place(job);
  }
  for (Job& job : jobs_) {  // not before all of them are there: they may slow each other
    if (job.mode == Mode::kTraining) trainer_.start(job);
  }
  script_.arm_events(turn_);
}

void Control::Impl::on(const StepReached& event) {
  Job& job = jobs_[event.job];
  if (!job.moves()) return;
  trainer_.credit(job, event.step, turn_.now_s);
  job.training.until_step = event.step;  // at a boundary: nothing runs until the next Train
  for (const size_t due : script_.due_at_step(job.index, job.state.step)) fire(due);
  if (job.spec->steps > 0 && event.step >= job.spec->steps) return lifecycle_.complete(job);
  if (lifecycle_.stopping()) return snapshots_.start_last(job);
  go_on(job, snapshots_.start_due(job));
}

void Control::Impl::on(const RoundDone& event) {
  Job& job = jobs_[event.job];
  if (!job.underway) return;
  job.underway->rounds_done = event.round;
  job.underway->torn = job.underway->torn || (event.round > 0 && plan::frees_early(*job.underway->record.plan));
  for (const size_t due : script_.due_in_round(event.job, job.underway->record.index, event.round)) {
    const double delay_s = script_.delay_s(due);
    if (delay_s > 0) {
      script_.set_fired(due);
      script_.arm(turn_, turn_.now_s + delay_s, {.purpose = Timer::Purpose::kEvent, .event = due});
    } else {
      fire(due);
    }
  }
}

void Control::Impl::on(const ExecutionDone& event) {
  Job& job = jobs_[event.job];
  if (job.mode != Mode::kReconfiguring) return;
  reconfigurer_.commit(job, event.phases);
  if (job.mode == Mode::kStopping && !job.copies.last) go_on(job);
}

void Control::Impl::on(const BackgroundDone& event) {
  Job& job = jobs_[event.job];
  if (!snapshots_.arrive(job, event.tag)) return;
  if (job.copies.last == event.tag) return lifecycle_.stop(job);
  if (job.copies.before_change != event.tag) return (void)answer_notice(job);
  job.copies.before_change.reset();
  if (lifecycle_.stopping()) return snapshots_.start_last(job);
  go_on(job);
}

void Control::Impl::on(const CopyLost& event) {
  Job& job = jobs_[event.job];
  const bool last = job.mode == Mode::kStopping && job.copies.last == event.tag;
  snapshots_.give_up(job, event.tag);
  if (last) return snapshots_.start_last(job);
  if (job.copies.before_change == event.tag) return reconfigurer_.begin(job);
  reconfigurer_.lose_source(job, event.tag);
}

void Control::Impl::on(const TimerFired& event) {
  const Timer timer = script_.timer(event.timer);
  switch (timer.purpose) {
    case Timer::Purpose::kEvent: return fire(timer.event);
    case Timer::Purpose::kDeadline: return notice_is_over(std::get<scenario::Preempt>(script_.what(timer.event)));
    case Timer::Purpose::kArrival: return submit_arrivals();
    case Timer::Purpose::kWake: return policy_.wake(event.timer);
    case Timer::Purpose::kCutOff: return cut_off(timer);
    case Timer::Purpose::kLeave: {
      Job& job = jobs_[timer.job];
      if (job.request.leaves_s && *job.request.leaves_s <= turn_.now_s) (void)answer_notice(job);
      return;
    }
    case Timer::Purpose::kUntil: break;
  }
  for (Job& job : jobs_) {
    if (job.ledger && job.moves()) trainer_.credit(job, job.training.steps_done_at(turn_.now_s), turn_.now_s);
  }
  lifecycle_.end();
}

void Control::Impl::on(const DevicesLost& event) {
  const std::set<DeviceId> lost(event.devices.begin(), event.devices.end());
  const std::set<DeviceId> down = condition_.lose(lost, event.failed_at_s, event.usable);
  for (Job& job : jobs_) snapshots_.lose(job, lost);
  const std::string cause = "lost " + device_list(event.devices);
  policy_.take_grants(down, cause);
  consult();
  records_.add(event, script_.absent(), turn_.now_s);
  for (Job& job : jobs_) {
    if (reconfigurer_.lose(job, lost, event.failed_at_s, cause)) hit_.push_back(job.index);
  }
}

void Control::Impl::on(const UserResize& event) { apply(scenario::Resize{.job = event.job, .gpus = event.gpus}); }

// How long steps really take is not known, so jobs leave at once.
void Control::Impl::on(const UserDrain& event) {
  std::optional<double> deadline_s;
  if (event.notice_s) deadline_s = turn_.now_s + *event.notice_s;
  leave_devices(event.devices, "drain of " + device_list(event.devices), deadline_s, /*at_once=*/true);
}

void Control::Impl::on(const UserStop& event) {
  lifecycle_.request_stop();
  for (Job& job : jobs_) {
    if (job.mode == Mode::kWaiting) lifecycle_.stop(job);
    if (job.mode != Mode::kTraining) continue;
    if (event.notice_s && notices_.stop_by(job, turn_.now_s + *event.notice_s)) {
      snapshots_.start_last(job);
    } else {
      trainer_.stop_at_boundary(job);
    }
  }
}

void Control::Impl::on(const UserSave& event) {
  Job& job = jobs_[event.job];
  job.copies.asked = true;
  if (job.mode == Mode::kTraining) trainer_.stop_at_boundary(job);
}

void Control::Impl::on(const SamplesRead& event) {
  Job& job = jobs_[event.job];
  if (!job.ledger) return;
  const absl::Status fits = job.ledger->account(event);
  if (!fits.ok()) lifecycle_.misread(job, message_of(fits));
  if (lifecycle_.ending()) lifecycle_.end();
}

// ---- the scenario's script ----------------------------------------------------------------------------------------

void Control::Impl::fire(size_t event) {
  script_.set_fired(event);
  records_.add(ScriptRecord{.event = event, .at_s = turn_.now_s});
  const scenario::What& what = script_.what(event);
  std::visit([this](const auto& one) { apply(one); }, what);
  if (const auto* fail = std::get_if<scenario::Fail>(&what); fail != nullptr && fail->leave) {
    script_.arm(turn_, turn_.now_s + change::detect_s(strategy_.costs, false),
                {.purpose = Timer::Purpose::kCutOff, .event = event, .since_s = turn_.now_s});
  }
  if (const auto* preempt = std::get_if<scenario::Preempt>(&what)) {
    script_.arm(turn_, turn_.now_s + preempt->notice_s, {.purpose = Timer::Purpose::kDeadline, .event = event});
  }
}

void Control::Impl::apply(const scenario::Resize& what) {
  Job& job = jobs_[what.job];
  if (policy_.active()) return policy_.limit(job, what.gpus);  // of what the policy gives it uses no more
  job.wanted.gpus = what.gpus;
  job.wanted.devices.clear();
  job.request.leaves_s.reset();  // one change does both
  retarget(job, fmt::format("resize to {}", what.gpus));
}

void Control::Impl::apply(const scenario::Redeploy& what) {
  Job& job = jobs_[what.job];
  job.wanted.gpus = static_cast<int>(what.devices.size());
  job.wanted.devices = what.devices;
  retarget(job, "redeploy", /*forced=*/true);
}

void Control::Impl::apply(const scenario::Fail& what) {
  condition_.fail(what);
  turn_.commands.push_back(Inject{.what = what, .detect_s = change::detect_s(strategy_.costs, what.hangs)});
}

void Control::Impl::apply(const scenario::Repair& what) {
  turn_.commands.push_back(Inject{.what = what, .detect_s = 0});
  const bool were_cut_off = condition_.any_cut_off();
  condition_.repair(what, turn_.now_s);
  if (!what.links.empty()) staying_.clear();
  if (what.devices.empty() && !were_cut_off) return;
  policy_.tell(policy::Event::Kind::kCapacity);
  if (policy_.active()) return;
  const std::string cause = what.devices.empty() ? fmt::format("repair of {}", counted(std::ssize(what.links), "link"))
                                                 : "repair of " + device_list(what.devices);
  for (Job& job : jobs_) retarget(job, cause);
}

void Control::Impl::cut_off(const Timer& timer) {
  const auto& fail = std::get<scenario::Fail>(script_.what(timer.event));
  if (!condition_.cut_off(fail)) return;
  std::optional<double> left_s;
  if (fail.expected_s && timer.since_s + *fail.expected_s > turn_.now_s) {
    left_s = timer.since_s + *fail.expected_s - turn_.now_s;
    script_.arm(turn_, timer.since_s + *fail.expected_s, timer);
  }
  staying_.clear();
  for (Job& job : jobs_) {
    if (reconfigurer_.leave(job, timer.since_s, left_s)) staying_.insert(job.index);
  }
}

void Control::Impl::apply(const scenario::Degrade& what) {
  turn_.commands.push_back(Inject{.what = condition_.degrade(what), .detect_s = 0});
}

void Control::Impl::apply(const scenario::Preempt& what) {
  leave_devices(what.devices, "preemption of " + device_list(what.devices), turn_.now_s + what.notice_s);
}

void Control::Impl::leave_devices(const std::vector<DeviceId>& devices, const std::string& cause,
                                  std::optional<double> deadline_s, bool at_once) {
  condition_.drain(devices, deadline_s);
  policy_.take_grants({devices.begin(), devices.end()}, cause);
  if (policy_.active()) return;  // it is asked first
  for (Job& job : jobs_) {
    if (!answer_notice(job, cause, at_once)) retarget(job, cause);
  }
}

bool Control::Impl::answer_notice(Job& job, const std::string& cause, bool at_once) {
  if (policy_.active()) return false;
  const Notices::Leave leave = notices_.answer(job, cause, at_once);
  if (leave == Notices::Leave::kAtBoundary) retarget(job, job.request.leaves_for);
  if (leave == Notices::Leave::kNow) go_on(job);
  return leave != Notices::Leave::kNo;
}

// A repair before the deadline has taken the notice back.
void Control::Impl::notice_is_over(const scenario::Preempt& what) {
  scenario::Fail fail{.devices = what.devices, .links = {}};
  std::erase_if(fail.devices, [&](DeviceId device) { return !condition_.draining(device); });
  if (!fail.devices.empty()) apply(fail);
}

// ---- jobs ---------------------------------------------------------------------------------------------------------

void Control::Impl::submit(Job& job) {
  job.submitted = true;
  job.accounts.span_since_s = job.accounts.allocated_since_s = job.grant.at_s = turn_.now_s;
  job.accounts.time.begin(turn_.now_s);
  job.accounts.time.wait_for(targets_.why_waits(job));
  policy_.tell(policy::Event::Kind::kSubmitted, job.index);
}

void Control::Impl::submit_arrivals() {
  for (const int index : jobs_.arrivals()) {
    Job& job = jobs_[index];
    if (job.submitted || job.over() || job.spec->submit_s > turn_.now_s) continue;
    submit(job);
    if (!policy_.active()) retarget(job, "submitted");
  }
}

void Control::Impl::retarget(Job& job, const std::string& cause, bool forced) {
  if (job.over() || !job.submitted) return;
  job.request.forced = job.request.forced || forced;
  if (job.mode == Mode::kStopping || (staying_.contains(job.index) && !forced)) return;
  if (notices_.waits(job) && !forced) return;
  job.request.leaves_s.reset();
  if (job.mode == Mode::kReconfiguring) {
    job.request.again = true;
    job.request.cause = cause;
    job.request.cause_s = turn_.now_s;
    return;
  }
  const bool waits = job.mode == Mode::kWaiting && !targets_.choose(job);
  if (waits) return reconfigurer_.keep_waiting(job);
  if (job.mode != Mode::kWaiting && targets_.settled(job)) return;
  job.request.cause = cause;
  job.request.cause_s = turn_.now_s;
  job.request.failed_s = -1;
  if (job.mode == Mode::kWaiting) return reconfigurer_.begin(job);
  job.mode = Mode::kStopping;
  trainer_.stop_at_boundary(job);
}

void Control::Impl::go_on(Job& job, double stall_s) {
  if (job.mode == Mode::kStopping && !targets_.settled(job)) {
    if (!notices_.saves_first(job)) reconfigurer_.begin(job);
    return;
  }
  job.mode = Mode::kTraining;  // also when what was asked for has been taken back
  trainer_.start(job, stall_s);
}

void Control::Impl::consult() {
  if (lifecycle_.ending()) return;
  const std::optional<PolicyLoop::Answer> answer = policy_.ask();
  if (answer && policy_.is_program()) log({turn_.now_s, PolicyDecided{decision_text(answer->decision)}});
  if (answer && policy_.grant(*answer)) {
    for (const policy::JobId id : answer->decision.refused) lifecycle_.refuse(jobs_[static_cast<int>(id.value)]);
    policy_.arm_wake_up(*answer, script_, turn_);
  }
  if (!policy_.status().ok()) lifecycle_.give_up();
}

}  // namespace scalai::control
