#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/control/internal/control_impl.h"
#include "ptc/parallel/step_time.h"

namespace scalai::control {
namespace {

const parallel::Training& training_of(const Job& job) {
  return job.choice->training ? *job.choice->training : job.spec->training;
}

double slowest_of(const std::vector<DeviceId>& devices, const std::map<DeviceId, double>& speed) {
  double slowest = 1;
  for (const DeviceId device : devices) {
    const auto found = speed.find(device);
    if (found != speed.end()) slowest = std::min(slowest, found->second);
  }
  return slowest;
}

}  // namespace

void Control::Impl::update_paces() {
  std::string key;
  for (const auto& [device, share] : speed_) key += fmt::format("g{}x{} ", device.value, share);
  for (const auto& [link, share] : links_) key += fmt::format("{}x{} ", link, share);
  for (const Job& job : jobs_) {
    if (job.moves()) key += fmt::format("j{}e{} ", job.index, job.state.collection->epoch);
  }
  if (key == paced_) return;
  paced_ = key;
  paces_.clear();
  std::vector<int> asked;
  std::vector<parallel::StepInput> together;
  for (const Job& job : jobs_) {
    if (!job.moves()) continue;
    if (job.choice->step_s > 0) {
      paces_[job.index] = job.choice->step_s / slowest_of(job.devices, speed_);
      continue;
    }
    asked.push_back(job.index);
    together.push_back({.model = job.spec->shape,
                        .config = job.choice->config,
                        .training = training_of(job),
                        .cluster = scenario_.cluster,
                        .devices = job.devices,
                        .speed = speed_,
                        .links = links_});
  }
  if (together.empty()) return;
  const std::vector<double> seconds = step_time_.steps_s(together);
  SCALAI_CHECK(seconds.size() == asked.size(), "a step time for each job");
  for (size_t i = 0; i < asked.size(); ++i) {
    SCALAI_CHECK(seconds[i] > 0, fmt::format("job {}: {} s a step", asked[i], seconds[i]));
    paces_[asked[i]] = seconds[i];
  }
}

double Control::Impl::step_seconds(const Job& job) {
  update_paces();
  return paces_.at(job.index);
}

void Control::Impl::train(const Job& job) {
  commands_.push_back(Train{.job = job.index,
                            .start_s = job.training.start_s,
                            .from_step = job.training.from_step,
                            .until_step = job.training.until_step,
                            .step_s = job.training.step_s,
                            .devices = job.devices,
                            .collection = job.state.collection});
}

void Control::Impl::start_training(Job& job, double stall_s) {
  if (job.mode != Mode::kTraining) job.span_since_s = now_s_;
  job.mode = Mode::kTraining;
  if (!job.schedule.first_start_s) job.schedule.first_start_s = now_s_;
  job.training = {.start_s = now_s_ + stall_s,
                  .from_step = job.state.step,
                  .until_step = next_milestone(job),
                  .step_s = step_seconds(job)};
  train(job);
}

void Control::Impl::stop_at_boundary(Job& job) {
  // At a boundary already (inside its StepReached): the caller goes on from there.
  if (job.training.until_step == job.training.from_step) return;
  job.training.until_step = job.training.next_boundary_after(now_s_);
  // A step that stands still is given up: nothing of it is worth waiting for.
  if (std::isinf(job.training.step_s)) {
    job.training.start_s = now_s_;
    job.training.step_s = 0;
  }
  train(job);
}

void Control::Impl::keep_pace() {
  if (ending_) return;
  update_paces();
  for (Job& job : jobs_) {
    if (!job.moves()) continue;
    const double pace = paces_.at(job.index);
    const bool begun = job.training.start_s < now_s_ && !std::isinf(job.training.step_s);
    if (job.mode == Mode::kTraining && pace != job.training.step_s && !begun) {
      job.training.start_s = std::max(job.training.start_s, now_s_);
      job.training.step_s = pace;
      train(job);
    } else if (job.mode == Mode::kTraining && pace != job.training.step_s &&
               job.training.until_step != job.training.next_boundary_after(now_s_)) {
      stop_at_boundary(job);
    }
    if (job.mode == Mode::kTraining && pace == job.training.step_s) note_configuration(job);
  }
}

// One entry for each stretch of the job's life with the same configuration and pace.
void Control::Impl::note_configuration(Job& job) {
  const parallel::Training& training = training_of(job);
  ConfigurationRecord record{.since_s = std::max(job.training.start_s, now_s_),
                             .layout = collection::canonical(job.choice->config),
                             .gpus = job.choice->config.world(),
                             .micro_batch = training.micro_batch,
                             .recompute = std::string(parallel::name_of(training.recompute)),
                             .computed = job.choice->step_s == 0};
  if (!std::isinf(job.training.step_s)) record.step_s = job.training.step_s;
  std::vector<ConfigurationRecord>& list = job.record.configurations;
  // What was replaced before it began was never trained as.
  if (!list.empty() && list.back().since_s >= record.since_s) list.pop_back();
  if (!list.empty() && list.back().same_but_time(record)) return;
  double peak = 0;
  for (const DeviceId device : job.devices) {
    const plan::GpuKind& gpu =
        scenario_.cluster.hosts[static_cast<size_t>(scenario_.cluster.host_of(device).value)].gpu;
    peak += parallel::peak_flops(gpu, training.precision.math);
  }
  const double flops = parallel::model_flops(job.spec->shape, training.global_batch, training.sequence);
  if (record.step_s && peak > 0) record.mfu = flops / (*record.step_s * peak);
  list.push_back(std::move(record));
}

}  // namespace scalai::control
