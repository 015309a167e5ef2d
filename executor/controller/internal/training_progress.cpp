#include "executor/controller/internal/training_progress.h"

#include <algorithm>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {

bool TrainingProgress::take_up(const control::Train& train, bool tells) {
  SCALAI_CHECK(train.collection != nullptr);
  Layout& layout = this->layout(train.job);
  if (std::exchange(layout.is_new, false)) {
    layout.dp = static_cast<int>(train.collection->meshes.front().axis_size("dp"));
    layout.from_step = train.from_step;
    layout.part_steps = 1;
    if (tells) tell_layout(train.job);
  }
  run_.agenda.train(train);
  run_.job(train.job).training = train;
  return !run_.any_dead(train.devices);
}

void TrainingProgress::tell_layout(int job) const {
  const auto& tell = run_.options.on_layout;
  if (tell && layout(job).dp > 0) tell(job, layout(job).dp, layout(job).from_step);
}

void TrainingProgress::note_commit(int job) {
  run_.job(job).gone.clear();
  layout(job).is_new = true;
}

absl::Status TrainingProgress::advance(int job, int64_t step) {
  RunState::Job& state = run_.job(job);
  SCALAI_RETURN_IF_ERROR(arrivals_.unless_lost(state.work->advance(step)));
  const TrainerWork::Trained trained = state.work->take_trained();
  if (run_.options.on_asked && (trained.asked_gpus > 0 || trained.asked_save))
    run_.options.on_asked(job, trained.asked_gpus, trained.asked_save);
  if (trained.steps > 0) {
    Layout& layout = this->layout(job);
    layout.part_steps = steps_of_part(trained, 2 * layout.part_steps);
    layout.copies_state = trained.copy_s > 0;
    if (state.training) record(job, *state.training, trained);
  }
  if (const auto interruption = state.work->take_interruption()) SCALAI_RETURN_IF_ERROR(arrivals_.lose(*interruption));
  arrivals_.receive(0);
  return absl::OkStatus();
}

// All parts in one layout are one record.
void TrainingProgress::record(int job, const control::Train& train, const TrainerWork::Trained& trained) {
  std::vector<control::TrainedSteps>& all = run_.recorder.trained;
  const std::string& layout = train.collection->name;
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const control::TrainedSteps& one) { return one.job == job && one.layout == layout; });
  if (found == all.end()) {
    const int64_t gpus = train.collection->ranks();
    found = all.insert(found, {.job = job, .layout = layout, .gpus = gpus, .scenario_step_s = train.step_s});
  }
  found->steps += trained.steps;
  found->measured_s += trained.seconds;
}

absl::Status TrainingProgress::keep_up() {
  for (int job = 0; job < std::ssize(run_.jobs); ++job) {
    const RunState::Job& state = run_.job(job);
    if (!run_.trains(state)) continue;
    const int64_t step = state.where().steps_done_at(run_.agenda.now_s());
    if (step >= state.work->step()) SCALAI_RETURN_IF_ERROR(advance(job, step));
  }
  return absl::OkStatus();
}

// To the end of the next part of some job's real training; halfway through a step, so that rounding does not matter.
double TrainingProgress::end_of_part() const {
  double until_s = std::numeric_limits<double>::infinity();
  for (int job = 0; job < std::ssize(run_.jobs); ++job) {
    const RunState::Job& state = run_.job(job);
    if (!run_.trains(state)) continue;
    const control::Training where = state.where();
    const bool watched = run_.options.live != nullptr && run_.options.live->watched(job);
    // So that no step escapes its readers, unless each would be copied for them.
    const int64_t part = watched && !layout(job).copies_state ? 1 : layout(job).part_steps;
    const int64_t next = std::max(where.steps_done_at(run_.agenda.now_s()) + part, state.work->step());
    const int64_t steps = next - where.from_step;
    until_s = std::min(until_s, where.start_s + (static_cast<double>(steps) + 0.5) * where.step_s);
  }
  return until_s;
}

absl::Status TrainingProgress::serve_live() {
  for (int job = 0; run_.options.live != nullptr && job < std::ssize(run_.jobs); ++job) {
    if (!run_.options.live->watched(job)) continue;
    if (executions_.is_under_way(job)) {
      run_.options.live->lose_fleeting(job);
      continue;
    }
    for (const state::StateVersion version : run_.options.live->take_unkept(job))
      SCALAI_RETURN_IF_ERROR(run_.job(job).work->forget(version));
    const auto& training = run_.job(job).training;
    if (training && run_.options.live->waits(job) && !run_.any_dead(training->devices))
      SCALAI_RETURN_IF_ERROR(serve(job));
  }
  return absl::OkStatus();
}

// The copy of a job whose workers die meanwhile is nobody's error but its reader's: the loss is told as ever.
absl::Status TrainingProgress::serve(int job) {
  const RunState::Job& state = run_.job(job);
  if (!state.work->is_trained()) SCALAI_RETURN_IF_ERROR(advance(job, state.where().steps_done_at(run_.agenda.now_s())));
  if (run_.any_dead(state.training->devices)) return absl::OkStatus();
  const absl::Status served = run_.options.live->serve(
      job, state.training->collection->epoch, state.work->step(),
      [&](state::StateVersion version, const LiveSteps::Kind& kind) { return state.work->show_live(version, kind); });
  return may_be_loss(served) ? arrivals_.unless_lost(served) : absl::OkStatus();
}

}  // namespace scalai::executor::controller
