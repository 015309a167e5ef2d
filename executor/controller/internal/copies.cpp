#include "executor/controller/internal/copies.h"

#include <algorithm>

#include "ptc/base/say.h"
#include "ptc/base/status.h"

namespace scalai::executor::controller {

Copies::Copies(RunState& run, Arrivals& arrivals, Executions& executions, TrainingProgress& training)
    : run_(run), arrivals_(arrivals), executions_(executions), training_(training), jobs_(run.jobs.size()) {
  if (!run.options.last_checkpoint || has_storage() || run.options.programs.empty()) return;
  say("scalai exec: warning: the scenario's cluster has no storage, so the last step of this training will be in no "
      "checkpoint\nhint: add storage {{ read: \"10GB/s\" }} to the cluster, or say --no-last-checkpoint\n");
}

absl::Status Copies::make(const control::Background& background) {
  const auto is_void = [&] { return run_.any_dead(background.collection->device_of_rank); };
  if (is_void()) return absl::OkStatus();
  JobWork& work = *run_.job(background.job).work;
  if (work.is_trained()) {
    if (work.step() > background.step) {  // it has gone on under an earlier controller
      run_.report(control::CopyLost{background.job, background.tag});
      return absl::OkStatus();
    }
    SCALAI_RETURN_IF_ERROR(training_.advance(background.job, background.step));
    if (is_void()) return absl::OkStatus();
  }
  // A lost worker of the job makes it void; any other one only had copies.
  absl::Status done = absl::OkStatus();
  size_t living = 0;
  do {
    living = run_.pool.living().size();
    done = work.advance(background.step);
    if (done.ok()) {
      done = work.background(background);
      if (!done.ok() && !may_be_loss(done)) return give_up(background, done);
    }
    SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(done));
    arrivals_.receive(0);
  } while (!done.ok() && run_.pool.living().size() < living && !is_void());
  if (!done.ok()) return absl::OkStatus();
  if (work.is_trained() && background.what == "checkpoint") of(background.job).copies.push_back({background});
  run_.agenda.background(background);
  return absl::OkStatus();
}

absl::Status Copies::happen(const control::Agenda::CopyEnd& end) {
  std::vector<Copy>& copies = of(end.job).copies;
  const auto found =
      std::find_if(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.command.tag == end.tag; });
  if (found == copies.end()) {
    run_.report(control::BackgroundDone{end.job, end.tag});
    return absl::OkStatus();
  }
  found->due = true;
  SCALAI_RETURN_IF_ERROR(collect());
  while (!run_.options.late_checkpoints && any_due()) {
    arrivals_.receive(kPoll_s);
    SCALAI_RETURN_IF_ERROR(collect());
  }
  return absl::OkStatus();
}

absl::Status Copies::collect() {
  for (Job& job : jobs_) {
    for (size_t i = 0; i < job.copies.size();) {
      const Copy& copy = job.copies[i];
      absl::StatusOr<bool> done = false;
      if (copy.due) done = run_.job(copy.command.job).work->snapshots().done(copy.command.tag);
      if (done.ok() && !*done) {
        ++i;
        continue;
      }
      const control::Background command = copy.command;
      job.copies.erase(job.copies.begin() + static_cast<int64_t>(i));
      SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(done.status()));
      if (done.ok()) {
        run_.report(control::BackgroundDone{command.job, command.tag});
      } else if (!run_.any_dead(command.collection->device_of_rank)) {  // whose loss makes it void
        SCALAI_RETURN_IF_ERROR(give_up(command, done.status()));
      }
    }
  }
  return absl::OkStatus();
}

bool Copies::any_due() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) {
    return std::any_of(job.copies.begin(), job.copies.end(), [](const Copy& copy) { return copy.due; });
  });
}

absl::Status Copies::wait_before(const control::Agenda::TrainEnd& end) {
  Job& job = of(end.job);
  const int64_t every = run_.spec(end.job).checkpoint.every_steps;
  const bool due = every > 0 && end.step % every == 0;
  if (!run_.options.late_checkpoints || job.copies.empty() || !(due || run_.is_last(end.job, end.step)))
    return absl::OkStatus();
  if (due && !std::exchange(job.told_late, true))
    say("scalai exec: job {}: at step {} the checkpoint of step {} is still being written: training waits for it, and "
        "will at later checkpoints\n",
        run_.spec(end.job).name, end.step, job.copies.front().command.step);
  for (Copy& copy : job.copies) {
    if (!std::exchange(copy.due, true)) run_.agenda.drop_copy(copy.command.tag);
  }
  SCALAI_RETURN_IF_ERROR(collect());
  while (!job.copies.empty() && run_.agenda.counts(end)) {
    arrivals_.receive(kPoll_s);
    SCALAI_RETURN_IF_ERROR(collect());
  }
  return absl::OkStatus();
}

absl::Status Copies::forget(const control::Forget& forget) {
  run_.agenda.drop_copy(forget.snapshot);
  std::erase_if(of(forget.job).copies, [&](const Copy& copy) { return copy.command.tag == forget.snapshot; });
  return run_.job(forget.job).work->snapshots().forget(forget.snapshot);
}

// A copy that cannot be made costs nobody any state. An attempt at the same step again, which a run that is to end
// makes, waits a while.
absl::Status Copies::give_up(const control::Background& background, const absl::Status& why) {
  Job& job = of(background.job);
  run_.job(background.job).work->snapshots().leave_files(background.tag);
  const bool again = std::exchange(job.failed_step, background.step) == background.step;
  say("scalai exec: warning: job {}: the {} of step {} failed and is tried again when one is due: {}\n",
      run_.spec(background.job).name, background.what, background.step, message_of(why));
  if (!again) job.pause_s = 0;
  if (again) arrivals_.pause(job.pause_s);
  run_.report(control::CopyLost{background.job, background.tag});
  return absl::OkStatus();
}

bool Copies::keeps_last(int job) const {
  return run_.options.last_checkpoint && has_storage() && run_.job(job).work->is_trained();
}

absl::Status Copies::keep_last(int job) {
  if (!keeps_last(job)) return absl::OkStatus();
  JobWork& work = *run_.job(job).work;
  const std::string& name = run_.spec(job).name;
  double pause_s = 0;
  while (!run_.any_dead(work.devices())) {
    const absl::StatusOr<std::string> kept = work.keep_live();
    if (kept.ok()) {
      say("scalai exec: job {}: its last step, {}, is in {}\n", name, work.step(), *kept);
      return absl::OkStatus();
    }
    if (may_be_loss(kept.status())) {
      SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(kept.status()));
      continue;
    }
    say("scalai exec: warning: job {}: the checkpoint of its last step, {}, failed and is tried again; until it is "
        "written the workers keep the state: {}\n",
        name, work.step(), message_of(kept.status()));
    arrivals_.pause(pause_s);
  }
  return absl::OkStatus();
}

bool Copies::any_cut_short() const {
  for (int job = 0; job < std::ssize(run_.jobs); ++job) {
    if (is_cut_short(job)) return true;
  }
  return false;
}

absl::Status Copies::end() {
  for (int job = 0; job < std::ssize(run_.jobs); ++job) {
    SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(run_.job(job).work->snapshots().wait_for_files()));
    if (is_cut_short(job)) SCALAI_RETURN_IF_ERROR(keep_cut_short(job));
  }
  return absl::OkStatus();
}

// By the events alone, so that another controller knows it before it finds the workers.
bool Copies::is_cut_short(int job) const {
  const RunState::Job& state = run_.job(job);
  if (!keeps_last(job) || state.work->devices().empty()) return false;
  int64_t step = state.work->step();
  if (state.training) step = std::max(step, state.where().steps_done_at(run_.agenda.now_s()));
  return step > 0 && !run_.is_last(job, step) && !state.work->snapshots().has_checkpoint_of(step);
}

absl::Status Copies::keep_cut_short(int job) {
  const RunState::Job& state = run_.job(job);
  executions_.wait(job);
  const std::vector<DeviceId> devices = state.work->devices();
  const auto lost = [&] {
    return run_.any_dead(devices) ||
           std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return state.gone.contains(device); });
  };
  if (!lost()) SCALAI_RETURN_IF_ERROR(keep_last(job));
  if (lost())
    say("scalai exec: warning: job {}: its last step, {}, is in no checkpoint: devices that had its state are lost\n",
        run_.spec(job).name, state.work->step());
  return absl::OkStatus();
}

}  // namespace scalai::executor::controller
