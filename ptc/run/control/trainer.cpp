#include "ptc/run/control/internal/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ptc/cost/step/step_time.h"

namespace scalai::control {

Trainer::Trainer(const Condition& condition, const Script& script, Jobs& jobs, const step::StepTimeModel& model,
                 Turn& turn)
    : cluster_(condition.cluster()), script_(script), jobs_(jobs), turn_(turn), step_times_(condition, jobs, model) {}

int64_t Trainer::next_milestone(const Job& job) const {
  int64_t next = std::numeric_limits<int64_t>::max() / 2;  // none: trains until something happens
  const int64_t step = job.state.step;
  if (job.spec->steps > 0) next = std::min(next, job.spec->steps);
  next = std::min(next, script_.next_step(job.index, step));
  if (job.copies.asked) next = std::min(next, step + 1);  // another checkpoint was on its way
  const auto multiple_after = [&](int64_t every) { return (step / every + 1) * every; };
  if (job.spec->checkpoint.every_steps > 0) next = std::min(next, multiple_after(job.spec->checkpoint.every_steps));
  if (job.spec->redundancy.copies > 0) next = std::min(next, multiple_after(job.spec->redundancy.every_steps));
  return next;
}

void Trainer::train(const Job& job) {
  turn_.commands.push_back(Train{.job = job.index,
                                 .start_s = job.training.start_s,
                                 .from_step = job.training.from_step,
                                 .until_step = job.training.until_step,
                                 .step_s = job.training.step_s,
                                 .devices = job.devices,
                                 .collection = job.state.collection,
                                 .initial_copies = job.initial_copies()});
}

void Trainer::start(Job& job, double stall_s) {
  if (job.mode != Mode::kTraining) job.accounts.span_since_s = turn_.now_s;
  job.mode = Mode::kTraining;
  if (!job.accounts.schedule.first_start_s) job.accounts.schedule.first_start_s = turn_.now_s;
  step_times_.update();
  job.training = {.start_s = turn_.now_s + stall_s,
                  .from_step = job.state.step,
                  .until_step = next_milestone(job),
                  .step_s = step_times_.of(job),
                  .more_samples = training_of(job).global_batch - job.spec->training.global_batch};
  train(job);
}

void Trainer::stop_at_boundary(Job& job) {
  // At a boundary already (inside its StepReached): the caller goes on from there.
  if (job.training.until_step == job.training.from_step) return;
  job.training.until_step = job.training.next_boundary_after(turn_.now_s);
  // A step that stands still is given up: nothing of it is worth waiting for.
  if (std::isinf(job.training.step_s)) {
    account(job, 0, turn_.now_s, job.accounts.time);
    job.training.start_s = turn_.now_s;
    job.training.step_s = 0;
  }
  train(job);
}

void Trainer::credit(Job& job, int64_t steps_done, double at_s) {
  const int64_t steps = steps_done - job.training.from_step;
  account(job, steps, at_s, job.accounts.time);
  if (job.ledger && steps > 0) {
    job.ledger->done(steps_done, job.choice->config.dp);
    if (job.ledger->awaits())
      turn_.commands.push_back(Read{job.index, job.training.from_step, steps_done, job.state.collection});
  }
  if (steps > 0)
    job.accounts.record.training_s += static_cast<double>(steps) * job.training.step_s;  // it may stand still
  job.state.step = steps_done;
  job.training.from_step = steps_done;
  job.training.start_s = turn_.now_s;
}

void Trainer::update_step_times() {
  step_times_.update();
  for (Job& job : jobs_) {
    if (!job.moves()) continue;
    const double step_s = step_times_.of(job);
    const bool begun = job.training.start_s < turn_.now_s && !std::isinf(job.training.step_s);
    if (job.mode == Mode::kTraining && step_s != job.training.step_s && !begun) {
      if (job.training.start_s < turn_.now_s) account(job, 0, turn_.now_s, job.accounts.time);  // it stood still
      job.training.start_s = std::max(job.training.start_s, turn_.now_s);
      job.training.step_s = step_s;
      train(job);
    } else if (job.mode == Mode::kTraining && step_s != job.training.step_s &&
               job.training.until_step != job.training.next_boundary_after(turn_.now_s)) {
      stop_at_boundary(job);
    }
    if (job.mode == Mode::kTraining && step_s == job.training.step_s) note_configuration(job);
  }
}

// One entry for each stretch of the job's life with the same configuration and step time.
void Trainer::note_configuration(Job& job) {
  const step::Training& training = training_of(job);
  ConfigurationRecord record{.since_s = std::max(job.training.start_s, turn_.now_s),
                             .layout = collection::canonical(job.choice->config),
                             .gpus = job.choice->config.world(),
                             .global_batch = training.global_batch,
                             .micro_batch = training.micro_batch,
                             .recompute = step::name_of(training.recompute),
                             .computed = job.choice->step_s == 0,
                             .idle = job.choice->idle};
  if (!std::isinf(job.training.step_s)) record.step_s = job.training.step_s;
  std::vector<ConfigurationRecord>& list = job.accounts.record.configurations;
  // An entry that was replaced before it began was never trained as.
  if (!list.empty() && list.back().since_s >= record.since_s) list.pop_back();
  if (!list.empty() && list.back().same_but_time(record)) return;
  double peak = 0;
  for (const DeviceId device : job.devices) {
    const cluster::GpuKind& gpu = cluster_.hosts[static_cast<size_t>(cluster_.host_of(device).value)].gpu;
    peak += step::peak_flops(gpu, training.precision.math);
  }
  const double flops = step::model_flops(job.spec->shape, training.global_batch, training.sequence, training.mtp);
  if (record.step_s && peak > 0 && flops > 0) record.mfu = flops / (*record.step_s * peak);
  list.push_back(std::move(record));
}

}  // namespace scalai::control
