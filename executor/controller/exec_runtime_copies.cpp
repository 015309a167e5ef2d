// Copies and checkpoints: those that the control loop asks for, and that of a job's last step.

#include <algorithm>
#include <chrono>
#include <utility>

#include "executor/controller/internal/exec_runtime_impl.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"

namespace scalai::executor {

using Clock = std::chrono::steady_clock;

namespace {

constexpr double kFirstPause_s = 0.25, kLongestPause_s = 30;  // between attempts at the copy of one step

}  // namespace

absl::Status ExecRuntime::Impl::perform(const control::Background& background) {
  if (any_dead(background.collection->device_of_rank)) return absl::OkStatus();  // the loss makes it void
  if (job(background.job).work->is_trained()) {
    if (job(background.job).work->step() > background.step) {  // it has gone on under an earlier controller
      report(control::CopyLost{background.job, background.tag});
      return absl::OkStatus();
    }
    SCALAI_RETURN_IF_ERROR(advance(background.job, background.step));
    if (any_dead(background.collection->device_of_rank)) return absl::OkStatus();
  }
  // A lost worker of the job makes it void; any other one only had copies.
  absl::Status done = absl::OkStatus();
  size_t living = 0;
  do {
    living = pool_.living().size();
    done = job(background.job).work->advance(background.step);
    if (done.ok()) {
      done = job(background.job).work->background(background);
      if (!done.ok() && !absl::IsUnavailable(done) && !absl::IsCancelled(done)) return give_up(background, done);
    }
    SCALAI_RETURN_IF_ERROR(unless_lost(done));
    receive_events(0);
  } while (!done.ok() && pool_.living().size() < living && !any_dead(background.collection->device_of_rank));
  if (!done.ok()) return absl::OkStatus();
  JobState& state = job(background.job);
  if (state.work->is_trained() && background.what == "checkpoint") state.copies.push_back({background});
  agenda_.background(background);
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::happen(const Agenda::CopyEnd& end) {
  std::vector<Copy>& copies = job(end.job).copies;
  const auto found =
      std::find_if(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.command.tag == end.tag; });
  if (found == copies.end()) {
    report(control::BackgroundDone{end.job, end.tag});
    return absl::OkStatus();
  }
  found->due = true;
  SCALAI_RETURN_IF_ERROR(collect_copies());
  while (!options_.late_checkpoints && any_due()) {
    receive_events(kPoll_s);
    SCALAI_RETURN_IF_ERROR(collect_copies());
  }
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::collect_copies() {
  for (JobState& state : jobs_) {
    for (size_t i = 0; i < state.copies.size();) {
      absl::StatusOr<bool> done = false;
      if (state.copies[i].due) done = state.work->snapshots().done(state.copies[i].command.tag);
      if (done.ok() && !*done) {
        ++i;
        continue;
      }
      const control::Background command = std::move(state.copies[i].command);
      state.copies.erase(state.copies.begin() + static_cast<int64_t>(i));
      SCALAI_RETURN_IF_ERROR(unless_lost(done.status()));
      if (done.ok()) {
        report(control::BackgroundDone{command.job, command.tag});
      } else if (!any_dead(command.collection->device_of_rank)) {  // whose loss makes it void
        SCALAI_RETURN_IF_ERROR(give_up(command, done.status()));
      }
    }
  }
  return absl::OkStatus();
}

bool ExecRuntime::Impl::any_due() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const JobState& state) {
    return std::any_of(state.copies.begin(), state.copies.end(), [](const Copy& copy) { return copy.due; });
  });
}

bool ExecRuntime::Impl::any_under_way() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const JobState& state) { return state.training.has_value() || state.execution.has_value(); });
}

// What was begun is completed, even if its modelled end is not over.
absl::Status ExecRuntime::Impl::perform(const control::Stop&) {
  for (int i = 0; i < std::ssize(jobs_); ++i) {
    SCALAI_RETURN_IF_ERROR(unless_lost(job(i).work->snapshots().wait_for_files()));
    if (is_cut_short(i)) SCALAI_RETURN_IF_ERROR(keep_cut_short(i));
  }
  return absl::OkStatus();
}

absl::Status ExecRuntime::Impl::wait_for_copies(const Agenda::TrainEnd& end) {
  JobState& state = job(end.job);
  const int64_t every = spec(end.job).checkpoint.every_steps;
  const bool due = every > 0 && end.step % every == 0;
  if (!options_.late_checkpoints || state.copies.empty() || !(due || is_last(end.job, end.step)))
    return absl::OkStatus();
  if (due && !std::exchange(state.told_late, true))
    say("scalai exec: job {}: at step {} the checkpoint of step {} is still being written: training waits for it, and "
        "will at later checkpoints\n",
        spec(end.job).name, end.step, state.copies.front().command.step);
  for (Copy& copy : state.copies) {
    if (!std::exchange(copy.due, true)) agenda_.drop_copy(copy.command.tag);
  }
  SCALAI_RETURN_IF_ERROR(collect_copies());
  while (!state.copies.empty() && agenda_.counts(end)) {
    receive_events(kPoll_s);
    SCALAI_RETURN_IF_ERROR(collect_copies());
  }
  return absl::OkStatus();
}

bool ExecRuntime::Impl::has_storage() const { return scenario_.cluster.storage_read_bytes_per_s > 0; }

bool ExecRuntime::Impl::keeps_last(int job_index) const {
  return options_.last_checkpoint && has_storage() && jobs_[static_cast<size_t>(job_index)].work->is_trained();
}

void ExecRuntime::Impl::tell_unkept() const {
  if (!options_.last_checkpoint || has_storage() || options_.programs.empty()) return;
  say("scalai exec: warning: the scenario's cluster has no storage, so the last step of this training will be in no "
      "checkpoint\nhint: add storage {{ read: \"10GB/s\" }} to the cluster, or say --no-last-checkpoint\n");
}

absl::Status ExecRuntime::Impl::keep_last(int job_index) {
  if (!keeps_last(job_index)) return absl::OkStatus();
  JobState& state = job(job_index);
  const std::string& name = spec(job_index).name;
  state.copy_pause_s = 0;
  while (!any_dead(state.work->devices())) {
    const absl::StatusOr<std::string> kept = state.work->keep_live();
    if (kept.ok()) {
      say("scalai exec: job {}: its last step, {}, is in {}\n", name, state.work->step(), *kept);
      return absl::OkStatus();
    }
    if (absl::IsUnavailable(kept.status()) || absl::IsCancelled(kept.status())) {
      SCALAI_RETURN_IF_ERROR(unless_lost(kept.status()));
      continue;
    }
    say("scalai exec: warning: job {}: the checkpoint of its last step, {}, failed and is tried again; until it is "
        "written the workers keep the state: {}\n",
        name, state.work->step(), message_of(kept.status()));
    pause_after_failure(state);
  }
  return absl::OkStatus();
}

bool ExecRuntime::Impl::any_cut_short() const {
  for (int i = 0; i < std::ssize(jobs_); ++i) {
    if (is_cut_short(i)) return true;
  }
  return false;
}

// By the events alone, so that another controller knows it before it finds the workers.
bool ExecRuntime::Impl::is_cut_short(int job_index) const {
  const JobState& state = jobs_[static_cast<size_t>(job_index)];
  if (!keeps_last(job_index) || state.work->devices().empty()) return false;
  int64_t step = state.work->step();
  if (state.training) step = std::max(step, state.where().steps_done_at(agenda_.now_s()));
  return step > 0 && !is_last(job_index, step) && !state.work->snapshots().has_checkpoint_of(step);
}

absl::Status ExecRuntime::Impl::keep_cut_short(int job_index) {
  JobState& state = job(job_index);
  if (state.execution && state.execution->work.valid()) state.execution->work.wait();
  const std::vector<DeviceId> devices = state.work->devices();
  const auto lost = [&] {
    return any_dead(devices) ||
           std::any_of(devices.begin(), devices.end(), [&](DeviceId device) { return state.gone.contains(device); });
  };
  if (!lost()) SCALAI_RETURN_IF_ERROR(keep_last(job_index));
  if (lost())
    say("scalai exec: warning: job {}: its last step, {}, is in no checkpoint: devices that had its state are lost\n",
        spec(job_index).name, state.work->step());
  return absl::OkStatus();
}

void ExecRuntime::Impl::pause_after_failure(JobState& state) {
  state.copy_pause_s = state.copy_pause_s == 0 ? kFirstPause_s : std::min(kLongestPause_s, 2 * state.copy_pause_s);
  const Clock::time_point failed_at = Clock::now();
  while (seconds_since(failed_at) < state.copy_pause_s) receive_events(kPoll_s);
}

// A copy that cannot be made costs nobody any state. An attempt at the same step again, which a run that is to end
// makes, waits a while.
absl::Status ExecRuntime::Impl::give_up(const control::Background& background, const absl::Status& why) {
  JobState& state = job(background.job);
  state.work->snapshots().leave_files(background.tag);
  const bool again = std::exchange(state.failed_copy_step, background.step) == background.step;
  say("scalai exec: warning: job {}: the {} of step {} failed and is tried again when one is due: {}\n",
      spec(background.job).name, background.what, background.step, message_of(why));
  if (!again) state.copy_pause_s = 0;
  if (again) pause_after_failure(state);
  report(control::CopyLost{background.job, background.tag});
  return absl::OkStatus();
}

}  // namespace scalai::executor
