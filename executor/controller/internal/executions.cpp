#include "executor/controller/internal/executions.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/plan/estimate.h"

namespace scalai::executor::controller {

namespace {

// Neither a loss nor a shortage that may pass: of an execution that reads a copy, the copy is at fault.
bool is_lasting(const absl::Status& status) {
  return !may_be_loss(status) && !absl::IsDeadlineExceeded(status) && !absl::IsAborted(status) &&
         !absl::IsResourceExhausted(status);
}

}  // namespace

void Executions::take_up(const control::Execute& execute) {
  Execution& execution = of(execute.job).emplace(Execution{});  // clang 14 finds no default constructor here
  execution.command = execute;
  for (const DeviceId device : run_.agenda.dead_devices()) {
    if (!run_.agenda.unnoticed(device)) execution.known_dead.insert(device);
  }
  run_.agenda.execute(execute);
  run_.job(execute.job).training.reset();
}

absl::Status Executions::begin(const control::Execute& execute) {
  if (run_.options.log != nullptr) SCALAI_RETURN_IF_ERROR(run_.options.log->execute(execute));
  SCALAI_RETURN_IF_ERROR(run_.pool.let_go_of_the_lost());
  take_up(execute);
  return begin_work(execute.job);
}

void Executions::wait(int job) {
  if (of(job) && of(job)->work.valid()) of(job)->work.wait();
}

absl::Status Executions::abort(const control::Abort& abort) {
  wait(abort.job);
  run_.agenda.abort(abort.job);
  if (!is_under_way(abort.job)) return absl::OkStatus();
  const int64_t epoch = of(abort.job)->command.epoch;
  drop(abort.job);
  if (run_.options.log != nullptr) SCALAI_RETURN_IF_ERROR(run_.options.log->abort(abort.job));
  return run_.job(abort.job).work->forget(state::StateVersion::epoch(epoch));
}

void Executions::note_repair(const std::vector<DeviceId>& devices) {
  for (std::optional<Execution>& execution : executions_) {
    if (!execution) continue;
    for (const DeviceId device : devices) execution->known_dead.erase(device);
  }
}

bool Executions::any_broken() const {
  return std::any_of(executions_.begin(), executions_.end(), [](const auto& one) { return one && one->broken; });
}

void Executions::note_round(int job, int mark) {
  if (of(job)) of(job)->last_mark = mark;
}

// The work of the current stage; of the stages before it, too, where it was lost with an earlier controller. Nothing,
// where that one was ahead of the agenda.
absl::Status Executions::begin_work(int job) {
  Execution& execution = *of(job);
  const std::vector<change::Stage>& all = *run_.agenda.stages(job);
  const size_t end = run_.agenda.current_stage(job) + 1;
  std::vector<change::Stage> stages;
  for (; execution.worked < end; ++execution.worked) {
    const change::Stage& stage = all[execution.worked];
    stages.push_back({.what = stage.what, .phase = stage.phase, .round = stage.round});
    if (run_.options.log != nullptr && stage.round > 0 && plan::frees_early(*execution.command.plan))
      SCALAI_RETURN_IF_ERROR(run_.options.log->round(job, stage.round + 1));
  }
  JobWork* work = run_.job(job).work.get();
  const control::Execute* command = &execution.command;
  const double at_s = run_.agenda.now_s();
  execution.work = std::async(std::launch::async, [work, command, stages = std::move(stages), at_s] {
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

absl::Status Executions::happen(const control::Agenda::StageEnd& end) {
  if (!run_.agenda.counts(end) || !is_under_way(end.job) || of(end.job)->broken) return absl::OkStatus();
  Execution& execution = *of(end.job);
  while (execution.work.wait_for(std::chrono::duration<double>(kPoll_s)) != std::future_status::ready)
    arrivals_.receive(0);
  // The events received came first: the control loop may give up this execution, of which nothing may go on then.
  if (!run_.ready.empty()) {
    run_.pending.push_front(end);
    return absl::OkStatus();
  }
  StageOutcome outcome = execution.work.get();
  for (control::TransferRecord& record : outcome.transfers) run_.recorder.transfers.push_back(std::move(record));
  // Whatever came of it: a device that died in scenario time before the stage's end did not do its part.
  if (needs_dead(end.job)) {
    execution.broken = true;
    return absl::OkStatus();
  }
  return outcome.status.ok() ? end_stage(end.job, outcome) : fail(end, outcome.status);
}

// The work of a stage failed: because of a loss, or of the copy that it reads. Anything else ends the run. A stage that
// needs nothing more of the lost worker is done again without it.
absl::Status Executions::fail(const control::Agenda::StageEnd& end, const absl::Status& why) {
  const int job = end.job;
  Execution& execution = *of(job);
  JobWork& work = *run_.job(job).work;
  if (const auto interruption = work.take_interruption()) SCALAI_RETURN_IF_ERROR(arrivals_.lose(*interruption));
  if (may_be_loss(why)) arrivals_.await(kLossTimeout_s, [&] { return involves_dead(execution); });
  if (may_be_loss(why) && involves_dead(execution) && !needs_dead(job)) {
    --execution.worked;
    run_.pending.push_front(end);
    return begin_work(job);
  }
  if (!involves_dead(execution) || absl::IsDataLoss(why)) {
    const control::SnapshotId copy = execution.command.snapshot;
    if (copy == control::kLiveState || !is_lasting(why)) return why;
    say("scalai exec: warning: job {}: the copy of step {} cannot be read: {}\n", run_.spec(job).name,
        execution.command.step, message_of(why));
    work.snapshots().leave_files(copy);
    run_.report(control::CopyLost{job, copy});
  }
  execution.broken = true;  // the control loop will receive the loss and give it up
  return absl::OkStatus();
}

// Whether the current stage is, or a commit would be, nothing without a dead device.
bool Executions::needs_dead(int job) {
  if (run_.agenda.dead_devices().empty()) return false;
  const plan::Plan& plan = *of(job)->command.plan;
  if (run_.any_dead(plan.dst_devices())) return true;
  const int round = current_stage(job).round;
  return std::any_of(plan.instances().begin(), plan.instances().end(), [&](const plan::Instance& instance) {
    const auto legs = plan.patterns().legs(instance.pattern);
    return instance.round == round &&
           std::any_of(legs.begin(), legs.end(), [&](const plan::Leg& leg) { return run_.agenda.dead(leg.src); });
  });
}

// A device of the plan has died since, or a host that has copies of what was lost before. The control loop gives the
// plan up when it receives the loss.
bool Executions::involves_dead(const Execution& execution) const {
  const plan::Plan& plan = *execution.command.plan;
  const std::span<const plan::Leg> legs = plan.patterns().legs();
  const auto died = [&](DeviceId device) { return run_.agenda.dead(device) && !execution.known_dead.contains(device); };
  return run_.any_dead(plan.dst_devices()) || std::any_of(plan.src_devices().begin(), plan.src_devices().end(), died) ||
         std::any_of(legs.begin(), legs.end(), [&](const plan::Leg& leg) {
           return leg.src.kind == plan::Location::Kind::kHostMemory && run_.agenda.dead(leg.src);
         });
}

std::vector<control::EventBody> Executions::end_modelled_stage(int job) {
  Execution& execution = *of(job);
  std::vector<control::EventBody> events = run_.agenda.end_stage(job);
  std::erase_if(events, [&](const control::EventBody& event) {
    const auto* round = std::get_if<control::RoundDone>(&event);
    if (round == nullptr) return false;
    const bool told = round->round <= execution.last_mark;
    execution.last_mark = std::max(execution.last_mark, round->round);
    return told;
  });
  return events;
}

absl::Status Executions::end_stage(int job, const StageOutcome& outcome) {
  std::optional<Execution>& execution = of(job);
  const size_t ended = run_.agenda.current_stage(job);
  execution->phases.*current_stage(job).phase += outcome.seconds;
  for (control::EventBody& event : end_modelled_stage(job)) {
    if (auto* done = std::get_if<control::ExecutionDone>(&event)) {
      run_.recorder.executions.push_back({job, reconfiguration(job), execution->phases, done->phases});
      done->phases = execution->phases;
      execution.reset();
    }
    run_.report(std::move(event));
  }
  if (!execution) return absl::OkStatus();
  // A commit needs the word of every device of the new epoch.
  execution->broken = run_.agenda.current_stage(job) == ended;
  return execution->broken ? absl::OkStatus() : begin_work(job);
}

absl::Status Executions::catch_up(int job) {
  if (!is_under_way(job) || run_.options.log == nullptr) return absl::OkStatus();
  Execution& execution = *of(job);
  SCALAI_ASSIGN_OR_RETURN(const int begun, run_.options.log->last_round(job));
  if (begun == 0) return absl::OkStatus();
  const std::vector<change::Stage>& stages = *run_.agenda.stages(job);
  for (; stages[execution.worked].round + 1 != begun; ++execution.worked) {
    const int mark = stages[execution.worked].mark;
    if (mark > execution.last_mark) run_.report(control::RoundDone{job, execution.last_mark = mark});
  }
  return absl::OkStatus();
}

absl::Status Executions::begin_again() {
  for (int job = 0; job < std::ssize(executions_); ++job) {
    if (!of(job) || of(job)->work.valid()) continue;
    if (of(job)->worked == 0)
      SCALAI_RETURN_IF_ERROR(run_.job(job).work->forget(state::StateVersion::epoch(of(job)->command.epoch)));
    SCALAI_RETURN_IF_ERROR(begin_work(job));
  }
  return absl::OkStatus();
}

}  // namespace scalai::executor::controller
