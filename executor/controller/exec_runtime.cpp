#include "executor/controller/exec_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "executor/controller/internal/exec_runtime_impl.h"
#include "executor/controller/sample_work.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/plan/estimate.h"

namespace scalai::executor {

using control::TransferRecord;
using Clock = std::chrono::steady_clock;

namespace {

// Neither a loss nor a shortage that may pass: of an execution that reads a copy, the copy is at fault.
bool is_lasting(const absl::Status& status) {
  return !absl::IsUnavailable(status) && !absl::IsCancelled(status) && !absl::IsDeadlineExceeded(status) &&
         !absl::IsAborted(status) && !absl::IsResourceExhausted(status);
}

}  // namespace

// ---- commands -----------------------------------------------------------------------------------------------------

bool ExecRuntime::Impl::take_up(const control::Train& train) {
  SCALAI_CHECK(train.collection != nullptr);
  JobState& state = job(train.job);
  if (std::exchange(state.new_layout, false)) {
    state.dp = static_cast<int>(train.collection->meshes.front().axis_size("dp"));
    state.layout_step = train.from_step;
    state.part_steps = 1;
    if (!replaying_) tell_layout(train.job);
  }
  agenda_.train(train);
  state.training = train;
  return !any_dead(train.devices);
}

void ExecRuntime::Impl::tell_layout(int job_index) {
  const JobState& state = job(job_index);
  if (options_.on_layout && state.dp > 0) options_.on_layout(job_index, state.dp, state.layout_step);
}

absl::Status ExecRuntime::Impl::perform(const control::Train& train) {
  if (!take_up(train)) return absl::OkStatus();
  // A loss meanwhile makes the step never end.
  return unless_lost(job(train.job).work->begin(*train.collection, train.from_step, train.initial_copies));
}

void ExecRuntime::Impl::take_up(const control::Execute& execute) {
  Execution& execution = job(execute.job).execution.emplace(Execution{});  // clang 14 finds no default constructor here
  execution.command = execute;
  for (const DeviceId device : agenda_.dead_devices()) {
    if (!agenda_.unnoticed(device)) execution.known_dead.insert(device);
  }
  agenda_.execute(execute);
  job(execute.job).training.reset();
}

absl::Status ExecRuntime::Impl::perform(const control::Execute& execute) {
  if (options_.log != nullptr) SCALAI_RETURN_IF_ERROR(options_.log->execute(execute));
  SCALAI_RETURN_IF_ERROR(pool_.let_go_of_the_lost());
  take_up(execute);
  return begin_work(execute.job);
}

absl::Status ExecRuntime::Impl::perform(const control::Abort& abort) {
  JobState& state = job(abort.job);
  if (state.execution && state.execution->work.valid()) state.execution->work.wait();
  agenda_.abort(abort.job);
  if (!state.execution) return absl::OkStatus();
  const int64_t epoch = state.execution->command.epoch;
  state.execution.reset();
  if (options_.log != nullptr) SCALAI_RETURN_IF_ERROR(options_.log->abort(abort.job));
  return state.work->forget(StateVersion::epoch(epoch));
}

absl::Status ExecRuntime::Impl::perform(const control::Commit& commit) {
  if (options_.log != nullptr) SCALAI_RETURN_IF_ERROR(options_.log->commit(commit));
  job(commit.job).gone.clear();
  job(commit.job).new_layout = true;
  SCALAI_RETURN_IF_ERROR(job(commit.job).work->commit(commit.epoch));
  return options_.log != nullptr ? options_.log->freed(commit.job) : absl::OkStatus();
}

absl::Status ExecRuntime::Impl::perform(const control::Inject& inject) {
  if (const auto* fail = std::get_if<scenario::Fail>(&inject.what)) return apply(*fail, inject.detect_s);
  if (const auto* repair = std::get_if<scenario::Repair>(&inject.what)) return apply(*repair);
  if (const auto* degrade = std::get_if<scenario::Degrade>(&inject.what)) agenda_.degrade(*degrade);  // only modelled
  return absl::OkStatus();
}

void ExecRuntime::Impl::mark_gone(const std::vector<DeviceId>& devices) {
  for (JobState& state : jobs_) state.gone.insert(devices.begin(), devices.end());
}

// A host all of whose devices have failed loses its worker; else the devices lose their memory.
absl::Status ExecRuntime::Impl::apply(const scenario::Fail& fail, double detect_s) {
  const std::vector<DeviceId> fresh = agenda_.fail(fail, detect_s);
  mark_gone(fresh);
  std::map<HostId, std::vector<DeviceId>> by_host;
  for (const DeviceId device : fresh) by_host[scenario_.cluster.host_of(device)].push_back(device);
  for (const auto& [host, devices] : by_host) {
    if (!pool_.living().contains(host)) continue;
    const std::vector<DeviceId> all = scenario_.cluster.devices_of(host);
    const bool whole = std::all_of(all.begin(), all.end(), [&](DeviceId device) { return agenda_.dead(device); });
    SCALAI_RETURN_IF_ERROR(unless_lost(whole ? pool_.kill(host) : fail_devices(pool_, host, devices)));
  }
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::apply(const scenario::Repair& repair) {
  for (const Agenda::LossKnown& loss : agenda_.repair(repair)) SCALAI_RETURN_IF_ERROR(happen(loss));
  for (JobState& state : jobs_) {
    if (!state.execution) continue;
    for (const DeviceId device : repair.devices) state.execution->known_dead.erase(device);
  }
  std::set<HostId> hosts;
  for (const DeviceId device : repair.devices) hosts.insert(scenario_.cluster.host_of(device));
  for (const HostId host : hosts) {
    if (options_.plan_only || pool_.living().contains(host)) continue;
    SCALAI_RETURN_IF_ERROR(unless_lost(pool_.revive(host)));
    for (JobState& state : jobs_) SCALAI_RETURN_IF_ERROR(unless_lost(state.work->stand_by({host})));
  }
  return absl::OkStatus();
}

// ---- executions ---------------------------------------------------------------------------------------------------

// The work of the current stage; of the stages before it, too, where it was lost with an earlier controller. Nothing,
// where that one was ahead of the agenda.
absl::Status ExecRuntime::Impl::begin_work(int job_index) {
  JobState& state = job(job_index);
  Execution& execution = *state.execution;
  const std::vector<change::Stage>& all = *agenda_.stages(job_index);
  const size_t end = agenda_.current_stage(job_index) + 1;
  std::vector<change::Stage> stages;
  for (; execution.worked < end; ++execution.worked) {
    const change::Stage& stage = all[execution.worked];
    stages.push_back({.what = stage.what, .phase = stage.phase, .round = stage.round});
    if (options_.log != nullptr && stage.round > 0 && plan::frees_early(*execution.command.plan))
      SCALAI_RETURN_IF_ERROR(options_.log->round(job_index, stage.round + 1));
  }
  JobWork* work = state.work.get();
  const control::Execute* command = &execution.command;
  execution.work = std::async(std::launch::async, [work, command, stages = std::move(stages), at_s = agenda_.now_s()] {
    StageOutcome outcome;
    for (const change::Stage& stage : stages) {
      StageOutcome one = work->run_stage(*command, stage, at_s);
      outcome.status = std::move(one.status);
      outcome.seconds += one.seconds;
      std::move(one.transfers.begin(), one.transfers.end(), std::back_inserter(outcome.transfers));
      if (!outcome.status.ok()) break;
    }
    return outcome;
  });
  return absl::OkStatus();
}

// Waits for the work of a stage whose modelled time is over, and receives losses of workers meanwhile.
absl::Status ExecRuntime::Impl::happen(const Agenda::StageEnd& end) {
  JobState& state = job(end.job);
  if (!agenda_.counts(end) || !state.execution || state.execution->broken) return absl::OkStatus();
  Execution& execution = *state.execution;
  while (execution.work.wait_for(std::chrono::duration<double>(kPoll_s)) != std::future_status::ready)
    receive_events(0);
  // The events received came first: the control loop may give up this execution, of which nothing may go on then.
  if (!ready_.empty()) {
    pending_.push_front(end);
    return absl::OkStatus();
  }
  StageOutcome outcome = execution.work.get();
  for (TransferRecord& record : outcome.transfers) recorder_.transfers.push_back(std::move(record));
  // Whatever came of it: a device that died in scenario time before the stage's end did not do its part.
  if (needs_dead(end.job)) {
    execution.broken = true;
    return absl::OkStatus();
  }
  if (outcome.status.ok()) return end_stage(end.job, outcome);
  if (const auto interruption = state.work->take_interruption()) SCALAI_RETURN_IF_ERROR(lose(*interruption));
  const Clock::time_point failed_at = Clock::now();
  const bool loss = absl::IsUnavailable(outcome.status) || absl::IsCancelled(outcome.status);
  while (loss && !involves_dead(execution) && seconds_since(failed_at) < kLossTimeout_s) receive_events(kPoll_s);
  if (!involves_dead(execution) || absl::IsDataLoss(outcome.status)) {
    const control::SnapshotId copy = execution.command.snapshot;
    if (copy == control::kLiveState || !is_lasting(outcome.status)) return outcome.status;
    say("scalai exec: warning: job {}: the copy of step {} cannot be read: {}\n",
        scenario_.jobs[static_cast<size_t>(end.job)].name, execution.command.step, message_of(outcome.status));
    state.work->snapshots().leave_files(copy);
    report(control::CopyLost{end.job, copy});
  }
  execution.broken = true;  // the control loop will receive the loss and give it up
  return absl::OkStatus();
}

// Whether the current stage is, or a commit would be, nothing without a dead device.
bool ExecRuntime::Impl::needs_dead(int job_index) {
  if (agenda_.dead_devices().empty()) return false;
  const plan::Plan& plan = *job(job_index).execution->command.plan;
  if (any_dead(plan.dst_devices)) return true;
  const int round = current_stage(job_index).round;
  return std::any_of(plan.instances.begin(), plan.instances.end(), [&](const plan::Instance& instance) {
    const auto legs = plan.patterns.legs(instance.pattern);
    return instance.round == round &&
           std::any_of(legs.begin(), legs.end(), [&](const plan::Leg& leg) { return agenda_.dead(leg.src); });
  });
}

// A device of the plan has died since, or a host that has copies of what was lost before. The control loop gives the
// plan up when it receives the loss.
bool ExecRuntime::Impl::involves_dead(const Execution& execution) const {
  const plan::Plan& plan = *execution.command.plan;
  const std::span<const plan::Leg> legs = plan.patterns.legs();
  return any_dead(plan.dst_devices) ||
         std::any_of(plan.src_devices.begin(), plan.src_devices.end(),
                     [&](DeviceId device) { return agenda_.dead(device) && !execution.known_dead.contains(device); }) ||
         std::any_of(legs.begin(), legs.end(), [&](const plan::Leg& leg) {
           return leg.src.kind == plan::Location::Kind::kHostMemory && agenda_.dead(leg.src);
         });
}

std::vector<control::EventBody> ExecRuntime::Impl::end_modelled_stage(int job_index) {
  Execution& execution = *job(job_index).execution;
  std::vector<control::EventBody> events = agenda_.end_stage(job_index);
  std::erase_if(events, [&](const control::EventBody& event) {
    const auto* round = std::get_if<control::RoundDone>(&event);
    if (round == nullptr) return false;
    const bool told = round->round <= execution.last_mark;
    execution.last_mark = std::max(execution.last_mark, round->round);
    return told;
  });
  return events;
}

absl::Status ExecRuntime::Impl::end_stage(int job_index, const StageOutcome& outcome) {
  JobState& state = job(job_index);
  const size_t ended = agenda_.current_stage(job_index);
  state.execution->phases.*current_stage(job_index).phase += outcome.seconds;
  for (control::EventBody& event : end_modelled_stage(job_index)) {
    if (auto* done = std::get_if<control::ExecutionDone>(&event)) {
      recorder_.executions.push_back(
          {job_index, state.execution->command.reconfiguration, state.execution->phases, done->phases});
      done->phases = state.execution->phases;
      state.execution.reset();
    }
    report(std::move(event));
  }
  if (!state.execution) return absl::OkStatus();
  // A commit needs the word of every device of the new epoch.
  state.execution->broken = agenda_.current_stage(job_index) == ended;
  return state.execution->broken ? absl::OkStatus() : begin_work(job_index);
}

absl::Status ExecRuntime::Impl::lose(const Interruption& interruption) {
  const std::vector<DeviceId> fresh = agenda_.lose(interruption.lost);
  // The device may be what ends its trainers, so it is not tried without end.
  constexpr int kMostEmptied = 3;
  const std::string cause = fmt::format("its training process left no whole state of step {}", interruption.step);
  Loss again{.devices = {}, .usable = true, .cause = cause}, for_good{.devices = {}, .cause = cause};
  for (const DeviceId device : fresh) (++emptied_[device] < kMostEmptied ? again : for_good).devices.push_back(device);
  for (Loss* loss : {&again, &for_good}) {
    if (!loss->devices.empty()) unreported_.push_back(std::move(*loss));
  }
  if (!fresh.empty()) say("scalai exec: {} devices have no whole state of step {}\n", fresh.size(), interruption.step);
  mark_gone(fresh);
  std::map<HostId, std::vector<DeviceId>> by_host;
  for (const DeviceId device : fresh) by_host[scenario_.cluster.host_of(device)].push_back(device);
  for (const auto& [host, devices] : by_host) {
    if (pool_.living().contains(host)) SCALAI_RETURN_IF_ERROR(unless_lost(fail_devices(pool_, host, devices)));
  }
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::happen(const Agenda::TrainEnd& end) {
  if (!agenda_.counts(end)) return absl::OkStatus();
  SCALAI_RETURN_IF_ERROR(advance(end.job, end.step));
  if (!agenda_.counts(end)) return absl::OkStatus();  // lost a device meanwhile
  SCALAI_RETURN_IF_ERROR(wait_for_copies(end));
  if (agenda_.counts(end) && is_last(end.job, end.step)) SCALAI_RETURN_IF_ERROR(keep_last(end.job));
  if (!agenda_.counts(end)) return absl::OkStatus();
  report(control::StepReached{end.job, end.step});
  return absl::OkStatus();
}

// All that is to be read. A worker that is lost meanwhile leaves it to the others; when none lives it has to wait.
absl::Status ExecRuntime::Impl::read_samples() {
  for (size_t i = 0; i < jobs_.size(); ++i) {
    std::deque<control::Read>& unread = jobs_[i].unread;
    while (!unread.empty() && !pool_.living().empty()) {
      const auto index = options_.datasets.find(static_cast<int>(i));
      absl::StatusOr<control::SamplesRead> read = scalai::executor::read_samples(
          scenario_, pool_, index != options_.datasets.end() ? index->second : scenario_.jobs[i].dataset->index_path,
          unread.front());
      SCALAI_RETURN_IF_ERROR(unless_lost(read.status()));
      if (!read.ok()) continue;
      unread.pop_front();
      report(*std::move(read));
    }
  }
  return absl::OkStatus();
}

// ---- commands and events in turn ------------------------------------------------------------------------------------

absl::Status ExecRuntime::Impl::do_or_note(const control::Command& command) {
  if (replaying_ && !past_is_over()) {
    note(command);
    return absl::OkStatus();
  }
  if (replaying_ && std::holds_alternative<control::Stop>(command) && !any_cut_short())
    return absl::OkStatus();  // the earlier controller has dismissed its workers
  SCALAI_RETURN_IF_ERROR(go_live());
  SCALAI_RETURN_IF_ERROR(find_trainers());
  // A worker that the command kills has not been lost.
  if (!std::holds_alternative<control::Inject>(command)) SCALAI_RETURN_IF_ERROR(judge_workers());
  return std::visit([this](const auto& what) { return perform(what); }, command);
}

absl::StatusOr<control::Event> ExecRuntime::Impl::next_event() {
  if (replaying_ && !past_is_over()) {
    const control::Event& event = options_.past[next_past_++];
    note(event);
    return event;
  }
  SCALAI_RETURN_IF_ERROR(go_live());
  SCALAI_RETURN_IF_ERROR(find_trainers());
  SCALAI_RETURN_IF_ERROR(judge_workers());
  SCALAI_RETURN_IF_ERROR(begin_again());
  SCALAI_RETURN_IF_ERROR(read_samples());
  while (ready_.empty()) {
    std::optional<Agenda::Happening> happening;
    if (!pending_.empty()) {
      happening = std::move(pending_.front());
      pending_.pop_front();
    } else {
      SCALAI_ASSIGN_OR_RETURN(happening, await_next());
    }
    if (!ready_.empty()) break;
    if (!happening) {
      const bool waits = std::any_of(jobs_.begin(), jobs_.end(),
                                     [](const JobState& job) { return job.execution && job.execution->broken; });
      receive_events(0.1);
      if (!ready_.empty()) break;
      if (waits) return failed("a transfer failed and no lost worker explains it");
      return absl::FailedPreconditionError("nothing can happen any more: jobs wait for devices that never come");
    }
    SCALAI_RETURN_IF_ERROR(keep_up());
    if (!ready_.empty()) {  // what was lost on the way came first
      pending_.push_front(*std::move(happening));
      break;
    }
    SCALAI_RETURN_IF_ERROR(std::visit([this](const auto& what) { return happen(what); }, *happening));
  }
  SCALAI_RETURN_IF_ERROR(trouble_);
  control::Event event = std::move(ready_.front());
  ready_.pop_front();
  if (options_.log != nullptr) SCALAI_RETURN_IF_ERROR(options_.log->event(event));
  return event;
}

ExecRuntime::ExecRuntime(const scenario::Scenario& scenario, ControllerEnd& controller, WorkerPool& pool,
                         control::Recorder& recorder, ExecOptions options)
    : impl_(std::make_unique<Impl>(scenario, controller, pool, recorder, std::move(options))) {}
ExecRuntime::~ExecRuntime() = default;
absl::Status ExecRuntime::perform(const control::Command& command) { return impl_->do_or_note(command); }
absl::StatusOr<control::Event> ExecRuntime::next_event() { return impl_->next_event(); }
int64_t ExecRuntime::bytes_verified() const { return impl_->bytes_verified(); }

}  // namespace scalai::executor
