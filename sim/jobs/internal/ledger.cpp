#include "sim/jobs/internal/ledger.h"

#include <algorithm>
#include <limits>

#include "ptc/base/status.h"

namespace scalai::jobs::internal {

Ledger::Ledger(const policy::Fleet& fleet, size_t samples)
    : gpus_each_(1.0 / fleet.per_gpu), limit_(std::max<size_t>(samples, 2)) {
  for (const policy::TypeSpec& type : fleet.types) price_.push_back(type.price_per_gpu_hour);
  paid_.assign(price_.size(), 0);
  int widest = 0;
  for (const policy::HostSpec& host : fleet.hosts) widest = std::max(widest, host.gpus);
  scattered_gpu_s_.assign(static_cast<size_t>(widest) + 1, 0);
  counted_scattered_gpu_s_ = scattered_gpu_s_;
}

double Ledger::below(const std::vector<double>& scattered, int gpus) {
  double sum = 0;
  for (size_t free = 0; free < scattered.size() && free < static_cast<size_t>(gpus); ++free) sum += scattered[free];
  return sum;
}

void Ledger::advance(double to_s, const Use& use, const policy::HostLedger& hosts) {
  SCALAI_CHECK(to_s >= now_s_);
  const double dt = to_s - now_s_;
  const double counted = std::max(0.0, std::min(to_s, to_s_) - std::max(now_s_, from_s_));
  now_s_ = to_s;
  up_gpu_s_ += dt * hosts.up_gpus();
  counted_up_gpu_s_ += counted * hosts.up_gpus();
  training_gpu_s_ += counted * use.training;
  changing_gpu_s_ += counted * (use.held - use.training);
  job_s_ += dt * (use.running_jobs + use.waiting_jobs);
  free_gpu_s_ += dt * hosts.free();
  counted_free_gpu_s_ += counted * hosts.free();
  for (const auto& [free, gpus] : hosts.scattered()) {
    scattered_gpu_s_[static_cast<size_t>(free)] += dt * gpus;
    counted_scattered_gpu_s_[static_cast<size_t>(free)] += counted * gpus;
  }
  for (size_t type = 0; type < price_.size(); ++type) {
    paid_[type] += dt / 3600 * price_[type];
    cost_ += counted / 3600 * price_[type] * hosts.up_gpus(policy::GpuType(static_cast<int64_t>(type))) * gpus_each_;
  }
}

void Ledger::sample(const Use& use, const policy::HostLedger& hosts) {
  int scattered = 0;
  for (const auto& [free, gpus] : hosts.scattered()) scattered += gpus;
  const policy::UseSample now{.at_s = now_s_,
                              .up = hosts.up_gpus(),
                              .training = use.training,
                              .changing = use.held - use.training,
                              .running_jobs = use.running_jobs,
                              .waiting_jobs = use.waiting_jobs,
                              .free = places_ ? hosts.free() : -1,
                              .scattered = scattered};
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

void Ledger::finish(const std::map<int, int64_t>& jobs_of_size, policy::Outcome* outcome) const {
  outcome->use = samples_;
  outcome->use_every = stride_;
  outcome->up_gpu_s = counted_up_gpu_s_ * gpus_each_;
  outcome->training_gpu_s = training_gpu_s_ * gpus_each_;
  outcome->changing_gpu_s = changing_gpu_s_ * gpus_each_;
  outcome->cost = cost_;
  if (!places_) return;
  policy::FreeGpuTime free{
      .gpu_s = counted_free_gpu_s_ * gpus_each_,
      .scattered_gpu_s = below(counted_scattered_gpu_s_, std::numeric_limits<int>::max()) * gpus_each_,
      .unusable_gpu_s = {}};
  double unusable = 0;
  int64_t jobs = 0;
  for (const auto& [gpus, count] : jobs_of_size) {
    unusable += static_cast<double>(count) * below(counted_scattered_gpu_s_, gpus);
    jobs += count;
  }
  if (gpus_each_ == 1) free.unusable_gpu_s = unusable / static_cast<double>(std::max<int64_t>(jobs, 1));
  outcome->free = free;
}

}  // namespace scalai::jobs::internal
