// Time, real training up to it, and the events received on the way.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "executor/controller/internal/exec_runtime_impl.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/control/event_text.h"

namespace scalai::executor {

using Clock = std::chrono::steady_clock;

absl::Status ExecRuntime::Impl::advance(int job_index, int64_t step) {
  JobState& state = job(job_index);
  JobWork& work = *state.work;
  SCALAI_RETURN_IF_ERROR(unless_lost(work.advance(step)));
  const TrainerWork::Trained trained = work.take_trained();
  if (options_.on_asked && (trained.asked_gpus > 0 || trained.asked_save))
    options_.on_asked(job_index, trained.asked_gpus, trained.asked_save);
  if (trained.steps > 0) {
    state.part_steps = steps_of_part(trained, 2 * state.part_steps);
    state.copies_state = trained.copy_s > 0;
    if (state.training) record(job_index, *state.training, trained);
  }
  if (const auto interruption = work.take_interruption()) SCALAI_RETURN_IF_ERROR(lose(*interruption));
  receive_events(0);
  return absl::OkStatus();
}

// All parts in one layout are one record.
void ExecRuntime::Impl::record(int job_index, const control::Train& train, const TrainerWork::Trained& trained) {
  std::vector<control::TrainedSteps>& all = recorder_.trained;
  const std::string& layout = train.collection->name;
  auto found = std::find_if(all.begin(), all.end(), [&](const control::TrainedSteps& one) {
    return one.job == job_index && one.layout == layout;
  });
  if (found == all.end()) {
    const int64_t gpus = train.collection->ranks();
    found = all.insert(found, {.job = job_index, .layout = layout, .gpus = gpus, .scenario_step_s = train.step_s});
  }
  found->steps += trained.steps;
  found->measured_s += trained.seconds;
}

absl::Status ExecRuntime::Impl::keep_up() {
  for (size_t i = 0; i < jobs_.size(); ++i) {
    JobState& state = jobs_[i];
    if (!state.work->is_trained() || !state.training || any_dead(state.training->devices)) continue;
    const int64_t step = state.where().steps_done_at(agenda_.now_s());
    if (step >= state.work->step()) SCALAI_RETURN_IF_ERROR(advance(static_cast<int>(i), step));
  }
  return absl::OkStatus();
}

// To the end of the next part of some job's real training; halfway through a step, so that rounding does not matter.
double ExecRuntime::Impl::end_of_part() const {
  double until_s = std::numeric_limits<double>::infinity();
  for (const JobState& state : jobs_) {
    if (!state.work->is_trained() || !state.training || any_dead(state.training->devices)) continue;
    const control::Training where = state.where();
    const bool watched = options_.live != nullptr && options_.live->watched(static_cast<int>(&state - jobs_.data()));
    // So that no step escapes its readers, unless each would be copied for them.
    const int64_t part = watched && !state.copies_state ? 1 : state.part_steps;
    const int64_t next = std::max(where.steps_done_at(agenda_.now_s()) + part, state.work->step());
    const int64_t steps = next - where.from_step;
    until_s = std::min(until_s, where.start_s + (static_cast<double>(steps) + 0.5) * where.step_s);
  }
  return until_s;
}

// The copy of a job whose workers die meanwhile is nobody's error but its reader's: the loss is told as ever.
absl::Status ExecRuntime::Impl::serve_live() {
  for (size_t i = 0; options_.live != nullptr && i < jobs_.size(); ++i) {
    const int index = static_cast<int>(i);
    JobState& state = jobs_[i];
    if (!options_.live->watched(index)) continue;
    if (state.execution) {
      options_.live->lose_fleeting(index);
      continue;
    }
    for (const StateVersion version : options_.live->take_unkept(index))
      SCALAI_RETURN_IF_ERROR(state.work->forget(version));
    if (state.training && options_.live->waits(index) && !any_dead(state.training->devices)) {
      if (!state.work->is_trained())
        SCALAI_RETURN_IF_ERROR(advance(index, state.where().steps_done_at(agenda_.now_s())));
      if (any_dead(state.training->devices)) continue;
      const absl::Status served = options_.live->serve(
          index, state.training->collection->epoch, state.work->step(),
          [&](StateVersion version, const LiveSteps::Kind& kind) { return state.work->show_live(version, kind); });
      const bool lost = absl::IsUnavailable(served) || absl::IsCancelled(served);
      SCALAI_RETURN_IF_ERROR(lost ? unless_lost(served) : absl::OkStatus());
    }
  }
  return absl::OkStatus();
}

bool ExecRuntime::Impl::catching_up() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const JobState& state) {
    return state.work->is_trained() && state.training && !any_dead(state.training->devices) &&
           state.where().steps_done_at(agenda_.now_s()) < std::min(state.work->step(), state.training->until_step);
  });
}

void ExecRuntime::Impl::worker_lost(HostId host, const std::string& why) {
  pool_.lost(host);
  ++losses_;
  const std::vector<DeviceId> fresh = agenda_.lose(scenario_.cluster.devices_of(host));
  mark_gone(fresh);
  say("scalai exec: lost the worker of h{}: {}\n", host.value, printable_text(why));
  if (!fresh.empty()) {
    unreported_.push_back(
        {.devices = fresh, .cause = control::as_cell(fmt::format("the worker of h{}: {}", host.value, why))});
  }
}

// When the state was lost is what the control loop counts the steps by. Emulated training is where the clock is; real
// training is where those stopped who still have state.
void ExecRuntime::Impl::report_losses() {
  if (unreported_.empty() || reporting_) return;
  reporting_ = true;  // settling receives more
  double failed_at_s = agenda_.now_s();
  for (JobState& state : jobs_) {
    if (!state.work->is_trained() || !state.training || !any_dead(state.training->devices)) continue;
    absl::StatusOr<Interruption> found = state.work->settle(agenda_.dead_devices());
    for (; absl::IsUnavailable(found.status()); found = state.work->settle(agenda_.dead_devices()))
      receive_events(kPoll_s);
    trouble_.Update(found.ok() ? lose(*found) : found.status());
    if (!found.ok()) continue;
    const control::Train& train = *state.training;
    const double steps = static_cast<double>(found->step - train.from_step) + 0.5;
    failed_at_s = std::min(failed_at_s, train.start_s + std::max(0.0, steps) * train.step_s);
  }
  reporting_ = false;
  for (Loss& loss : std::exchange(unreported_, {})) {
    if (loss.usable) agenda_.repair({.devices = loss.devices});
    report(control::DevicesLost{std::move(loss.devices), failed_at_s, loss.usable, std::move(loss.cause)});
  }
}

// Of a worker that could not be reached. Returns OK if a worker is lost; the control loop receives DevicesLost instead.
absl::Status ExecRuntime::Impl::unless_lost(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsCancelled(status)) return status;
  const Clock::time_point failed_at = Clock::now();
  const int64_t before = losses_;
  while (losses_ == before && seconds_since(failed_at) < kLossTimeout_s) receive_events(kPoll_s);
  return losses_ == before ? status : absl::OkStatus();
}

void ExecRuntime::Impl::receive_events(double timeout_s) {
  for (std::optional<executor::Event> event = controller_.next_event(timeout_s); event;
       event = controller_.next_event(0)) {
    const auto* lost = std::get_if<WorkerLost>(&*event);
    if (lost == nullptr || !pool_.is_ours(*lost)) continue;
    if (pool_.living().contains(HostId(lost->host))) worker_lost(HostId(lost->host), pool_.why_lost(*lost));
  }
  report_losses();
  if (options_.requests == nullptr || catching_up()) return;
  for (control::EventBody& request : options_.requests->take()) report(std::move(request));
}

absl::StatusOr<std::optional<control::Agenda::Happening>> ExecRuntime::Impl::await_next() {
  if (options_.time_scale <= 0) {
    receive_events(0);
    while (ready_.empty()) {
      SCALAI_RETURN_IF_ERROR(collect_copies());
      SCALAI_RETURN_IF_ERROR(serve_live());
      if (!ready_.empty()) break;
      if (any_due() && !any_under_way()) {
        receive_events(kPoll_s);
        continue;
      }
      const double until_s =
          options_.requests != nullptr || any_due() ? end_of_part() : std::numeric_limits<double>::infinity();
      auto happening = agenda_.next(until_s);
      if (happening || until_s == std::numeric_limits<double>::infinity()) return happening;
      SCALAI_RETURN_IF_ERROR(keep_up());  // which receives events
      if (options_.on_time) options_.on_time(agenda_.now_s());
    }
    return std::nullopt;
  }
  while (ready_.empty() && (!agenda_.idle() || any_due())) {
    receive_events(0);  // and serve: a run that is behind its clock never waits below
    SCALAI_RETURN_IF_ERROR(serve_live());
    if (!ready_.empty()) break;
    const double elapsed_s = seconds_since(started_) / options_.time_scale;
    if (auto happening = agenda_.next(std::max(elapsed_s, agenda_.now_s()))) return happening;
    receive_events(kPoll_s);
    SCALAI_RETURN_IF_ERROR(collect_copies());
  }
  return std::nullopt;
}

}  // namespace scalai::executor
