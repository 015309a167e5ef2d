#include <algorithm>

#include "executor/controller/internal/exec_runtime_impl.h"
#include "ptc/base/status.h"

namespace scalai::executor {

void ExecRuntime::Impl::note(const control::Command& command) {
  if (const auto* train = std::get_if<control::Train>(&command)) {
    (void)take_up(*train);
    job(train->job).work->note_begin(train->collection, train->from_step, train->initial_copies.has_value());
  } else if (const auto* halt = std::get_if<control::Halt>(&command)) {
    agenda_.halt(halt->job);
  } else if (const auto* read = std::get_if<control::Read>(&command)) {
    job(read->job).unread.push_back(*read);
  } else if (const auto* execute = std::get_if<control::Execute>(&command)) {
    take_up(*execute);
    job(execute->job).work->note_execute(*execute);
  } else if (const auto* abort = std::get_if<control::Abort>(&command)) {
    agenda_.abort(abort->job);
    job(abort->job).execution.reset();
  } else if (const auto* commit = std::get_if<control::Commit>(&command)) {
    job(commit->job).gone.clear();
    job(commit->job).new_layout = true;
    job(commit->job).work->note_commit();
  } else if (const auto* background = std::get_if<control::Background>(&command)) {
    agenda_.background(*background);
    job(background->job).work->note_background(*background);
  } else if (const auto* forget = std::get_if<control::Forget>(&command)) {
    job(forget->job).work->snapshots().note_forget(forget->snapshot);
  } else if (const auto* timer = std::get_if<control::ArmTimer>(&command)) {
    agenda_.arm(*timer);
  } else if (const auto* inject = std::get_if<control::Inject>(&command)) {
    if (const auto* fail = std::get_if<scenario::Fail>(&inject->what)) {
      mark_gone(agenda_.fail(*fail, inject->detect_s));
    } else if (const auto* repair = std::get_if<scenario::Repair>(&inject->what)) {
      // Losses that were not known yet were told at once.
      for (Agenda::LossKnown& loss : agenda_.repair(*repair)) pending_.emplace_back(std::move(loss));
    } else if (const auto* degrade = std::get_if<scenario::Degrade>(&inject->what)) {
      agenda_.degrade(*degrade);
    }
  }
}

// Whether a happening led to this event of the past, to no event, or to another one.
ExecRuntime::Impl::Verdict ExecRuntime::Impl::compare(const Agenda::Happening& happening, const control::Event& event) {
  const auto is = [](bool same) { return same ? Verdict::kIsIt : Verdict::kOther; };
  if (const auto* end = std::get_if<Agenda::TrainEnd>(&happening)) {
    if (!agenda_.counts(*end)) return Verdict::kNothing;
    const auto* step = std::get_if<control::StepReached>(&event.body);
    return is(step != nullptr && step->job == end->job && step->step == end->step);
  }
  if (const auto* end = std::get_if<Agenda::StageEnd>(&happening)) {
    if (!agenda_.counts(*end) || !job(end->job).execution) return Verdict::kNothing;
    const bool last = agenda_.current_stage(end->job) + 1 == agenda_.stages(end->job)->size();
    const auto* done = std::get_if<control::ExecutionDone>(&event.body);
    if (last) return is(done != nullptr && done->job == end->job);
    const int mark = current_stage(end->job).mark;
    if (mark <= job(end->job).execution->last_mark) return Verdict::kNothing;
    const auto* round = std::get_if<control::RoundDone>(&event.body);
    return is(round != nullptr && round->job == end->job && round->round == mark);
  }
  if (const auto* end = std::get_if<Agenda::CopyEnd>(&happening)) {
    const auto* copied = std::get_if<control::BackgroundDone>(&event.body);
    return is(copied != nullptr && copied->tag == end->tag);
  }
  if (const auto* loss = std::get_if<Agenda::LossKnown>(&happening)) {
    const auto* lost = std::get_if<control::DevicesLost>(&event.body);
    return is(lost != nullptr && lost->devices == loss->devices);
  }
  const auto* timer = std::get_if<control::TimerFired>(&event.body);
  return is(timer != nullptr && timer->timer == std::get<Agenda::TimerEnd>(happening).timer);
}

bool ExecRuntime::Impl::replay(const control::Event& event) {
  std::deque<Agenda::Happening> later;  // at the same moment, but after the event
  bool found = false;
  while (!found) {
    std::optional<Agenda::Happening> happening;
    if (!pending_.empty()) {
      happening = std::move(pending_.front());
      pending_.pop_front();
    } else {
      happening = agenda_.next(event.at_s);
    }
    if (!happening) break;
    const Verdict verdict = compare(*happening, event);
    found = verdict == Verdict::kIsIt;
    const auto* stage = std::get_if<Agenda::StageEnd>(&*happening);
    const bool ends_stage = stage != nullptr && agenda_.counts(*stage) && job(stage->job).execution.has_value();
    if (verdict == Verdict::kOther) {
      // Earlier than the event it was void: its work had lost a device.
      if (agenda_.now_s() >= event.at_s) later.push_back(std::move(*happening));
    } else if (ends_stage) {
      const control::Execute& command = job(stage->job).execution->command;
      const int reconfiguration = command.reconfiguration;
      for (const control::EventBody& body : end_modelled_stage(stage->job)) {
        const auto* done = std::get_if<control::ExecutionDone>(&body);
        if (done != nullptr && found)
          recorder_.executions.push_back(
              {done->job, reconfiguration, std::get<control::ExecutionDone>(event.body).phases, done->phases});
      }
    }
  }
  pending_.insert(pending_.begin(), later.begin(), later.end());
  return found;
}

void ExecRuntime::Impl::note(const control::Event& event) {
  const bool of_the_agenda = replay(event);
  if (const auto* step = std::get_if<control::StepReached>(&event.body)) {
    if (!of_the_agenda) agenda_.halt(step->job);
    job(step->job).work->note_step(step->step);
  } else if (const auto* round = std::get_if<control::RoundDone>(&event.body)) {
    JobState& state = job(round->job);
    state.work->note_staged();
    if (state.execution) state.execution->last_mark = round->round;
  } else if (const auto* done = std::get_if<control::ExecutionDone>(&event.body)) {
    job(done->job).execution.reset();
    if (!of_the_agenda) agenda_.abort(done->job);
  } else if (const auto* copy = std::get_if<control::CopyLost>(&event.body)) {
    agenda_.drop_copy(copy->tag);
    job(copy->job).work->snapshots().leave_files(copy->tag);
  } else if (const auto* copied = std::get_if<control::BackgroundDone>(&event.body)) {
    if (!of_the_agenda) agenda_.drop_copy(copied->tag);
    job(copied->job).work->snapshots().note_done(copied->tag);
  } else if (const auto* samples = std::get_if<control::SamplesRead>(&event.body)) {
    std::deque<control::Read>& unread = job(samples->job).unread;
    if (!unread.empty()) unread.pop_front();
  } else if (const auto* lost = std::get_if<control::DevicesLost>(&event.body)) {
    for (JobState& state : jobs_) {
      const bool has_trained =
          state.training && state.where().steps_done_at(lost->failed_at_s) > state.training->from_step;
      state.work->note_loss(lost->devices, has_trained);
    }
    if (!of_the_agenda) mark_gone(agenda_.lose(lost->devices));
    if (lost->usable) agenda_.repair({.devices = lost->devices});
  }
}

// Finds the workers that have outlived the earlier controller.
absl::Status ExecRuntime::Impl::go_live() {
  if (!std::exchange(replaying_, false)) return absl::OkStatus();
  to_begin_again_ = true;
  started_ =
      std::chrono::steady_clock::now() - std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                             std::chrono::duration<double>(agenda_.now_s() * options_.time_scale));
  for (size_t i = 0; i < scenario_.cluster.hosts.size(); ++i) {
    const HostId host(static_cast<int64_t>(i));
    const std::vector<DeviceId> devices = scenario_.cluster.devices_of(host);
    if (!std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return agenda_.dead(device); }))
      unjudged_.insert(host);
  }
  for (size_t i = 0; i < jobs_.size(); ++i) {
    for (const control::SnapshotId copy : jobs_[i].work->snapshots().cut_off()) {
      agenda_.drop_copy(copy);
      jobs_[i].work->snapshots().leave_files(copy);
      report(control::CopyLost{static_cast<int>(i), copy});
    }
    jobs_[i].work->resume();
    tell_layout(static_cast<int>(i));  // the earlier controller may not have told it
    SCALAI_RETURN_IF_ERROR(catch_up(static_cast<int>(i)));
  }
  SCALAI_RETURN_IF_ERROR(pool_.rejoin(unjudged_, options_.rejoin_s));
  for (const JobState& state : jobs_) SCALAI_RETURN_IF_ERROR(state.work->forget_live());
  return absl::OkStatus();
}

// Trainers that the earlier controller had sent on have gone on. Where its last commands are still to be repeated, a
// job may have to wait for the commit of the epoch that its workers hold.
absl::Status ExecRuntime::Impl::find_trainers() {
  for (JobState& state : jobs_) {
    if (!state.work->is_trained() || state.work->is_found()) continue;
    std::set<DeviceId> gone = state.gone;
    const std::vector<DeviceId> devices = state.work->devices();
    for (const DeviceId device : devices) {
      const HostId host = scenario_.cluster.host_of(device);
      if (!pool_.living().contains(host) || !state.work->live_in(pool_.hello_of(host))) gone.insert(device);
    }
    if (std::all_of(devices.begin(), devices.end(), [&](DeviceId device) { return gone.contains(device); })) continue;
    const absl::StatusOr<Interruption> found = state.work->settle(gone);
    SCALAI_RETURN_IF_ERROR(unless_lost(found.status()));
    if (found.ok()) SCALAI_RETURN_IF_ERROR(lose(*found));
  }
  return absl::OkStatus();
}

// The rounds that an execution has behind it, by the journal, and the control loop may not know yet: before it
// receives anything else.
absl::Status ExecRuntime::Impl::catch_up(int job_index) {
  JobState& state = job(job_index);
  if (!state.execution || options_.log == nullptr) return absl::OkStatus();
  Execution& execution = *state.execution;
  SCALAI_ASSIGN_OR_RETURN(const int begun, options_.log->last_round(job_index));
  if (begun == 0) return absl::OkStatus();
  const std::vector<change::Stage>& stages = *agenda_.stages(job_index);
  for (; stages[execution.worked].round + 1 != begun; ++execution.worked) {
    const int mark = stages[execution.worked].mark;
    if (mark > execution.last_mark) report(control::RoundDone{job_index, execution.last_mark = mark});
  }
  return absl::OkStatus();
}

// Workers that did not come back, or came back as new ones, are lost. Before anything has happened, nothing can be.
absl::Status ExecRuntime::Impl::judge_workers() {
  for (const HostId host : std::exchange(unjudged_, {})) {
    const bool joined = pool_.living().contains(host);
    if (past_is_over() && options_.past.empty()) {
      if (!joined) SCALAI_RETURN_IF_ERROR(unless_lost(pool_.revive(host)));
      continue;
    }
    const std::vector<DeviceId> own = scenario_.cluster.devices_of(host);
    if (std::all_of(own.begin(), own.end(), [&](DeviceId device) { return agenda_.dead(device); })) continue;
    const Hello hello = pool_.hello_of(host);
    const bool whole = !hello.places.empty() && std::all_of(jobs_.begin(), jobs_.end(), [&](const JobState& state) {
      const std::vector<DeviceId> devices = state.work->devices();
      return state.work->held_in(hello) || std::none_of(devices.begin(), devices.end(), [&](DeviceId device) {
               return scenario_.cluster.host_of(device) == host && !state.gone.contains(device);
             });
    });
    if (joined && whole) continue;
    pool_.found(host);  // so that it can be lost
    worker_lost(host, joined ? "it has not the state it had" : "it did not join again");
    if (joined) SCALAI_RETURN_IF_ERROR(pool_.kill(host));
    report_losses();
  }
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::begin_again() {
  if (!std::exchange(to_begin_again_, false)) return absl::OkStatus();
  for (size_t i = 0; i < jobs_.size(); ++i) {
    if (jobs_[i].execution && !jobs_[i].execution->work.valid())
      SCALAI_RETURN_IF_ERROR(begin_again(static_cast<int>(i)));
  }
  return absl::OkStatus();
}

// An execution under way, by the old clock: what has arrived is dropped and all of it runs again, unless it has given
// up old state. Then it goes on with the round that had begun, for which workers are prepared.
absl::Status ExecRuntime::Impl::begin_again(int job_index) {
  const JobState& state = job(job_index);
  if (state.execution->worked == 0)
    SCALAI_RETURN_IF_ERROR(state.work->forget(StateVersion::epoch(state.execution->command.epoch)));
  return begin_work(job_index);
}

}  // namespace scalai::executor
