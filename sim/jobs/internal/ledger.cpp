#include "sim/jobs/internal/ledger.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::sched::internal {

Ledger::Ledger(const Fleet& fleet, size_t samples) : limit_(std::max<size_t>(samples, 2)) {
  for (const TypeSpec& type : fleet.types) price_.push_back(type.price_per_gpu_hour);
  paid_.assign(price_.size(), 0);
}

void Ledger::advance(double to_s, const Use& use, const HostBooks& books) {
  SCALAI_CHECK(to_s >= now_s_);
  const double dt = to_s - now_s_;
  const double counted = std::max(0.0, std::min(to_s, to_s_) - std::max(now_s_, from_s_));
  now_s_ = to_s;
  up_gpu_s_ += dt * books.up_gpus();
  counted_up_gpu_s_ += counted * books.up_gpus();
  training_gpu_s_ += counted * use.training;
  changing_gpu_s_ += counted * (use.held - use.training);
  job_s_ += dt * (use.running_jobs + use.waiting_jobs);
  for (size_t type = 0; type < price_.size(); ++type) {
    paid_[type] += dt / 3600 * price_[type];
    cost_ += counted / 3600 * price_[type] * books.up_gpus(GpuType(static_cast<int64_t>(type)));
  }
}

void Ledger::sample(const Use& use, const HostBooks& books) {
  const UseSample now{.at_s = now_s_,
                      .up = books.up_gpus(),
                      .training = use.training,
                      .changing = use.held - use.training,
                      .running_jobs = use.running_jobs,
                      .waiting_jobs = use.waiting_jobs};
  if (!samples_.empty() && samples_.back().at_s == now_s_) {
    samples_.back() = now;
    return;
  }
  if (++skipped_ < stride_) return;
  skipped_ = 0;
  if (samples_.size() >= limit_) {
    for (size_t k = 0; 2 * k < samples_.size(); ++k) samples_[k] = samples_[2 * k];
    samples_.resize((samples_.size() + 1) / 2);
    stride_ *= 2;
  }
  samples_.push_back(now);
}

void Ledger::finish(Outcome* outcome) const {
  outcome->use = samples_;
  outcome->use_every = stride_;
  outcome->up_gpu_s = counted_up_gpu_s_;
  outcome->training_gpu_s = training_gpu_s_;
  outcome->changing_gpu_s = changing_gpu_s_;
  outcome->cost = cost_;
}

}  // namespace scalai::sched::internal
