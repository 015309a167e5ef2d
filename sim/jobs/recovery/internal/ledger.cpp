#include "sim/jobs/recovery/internal/ledger.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "sim/jobs/recovery/internal/phases.h"

namespace scalai::jobs::recovery::internal {

void Ledger::advance(double to_s) {
  SCALAI_CHECK(to_s >= now_s_);
  host_s_ += (to_s - now_s_) * live_;
  if (now_s_ < pause_until_s_) {
    const double end_s = std::min(to_s, pause_until_s_);
    result_.changing_gpu_h += hours(end_s - now_s_, live_);
    now_s_ = end_s;
  }
  while (now_s_ < to_s) {
    if (rate_ <= 0) {
      result_.idle_gpu_h += hours(to_s - now_s_, live_);
      now_s_ = to_s;
      return;
    }
    if (!started_) {
      started_ = true;
      result_.from_s = now_s_;
    }
    if (write_left_s_ > 0) {
      const double seconds = std::min(to_s - now_s_, write_left_s_);
      result_.checkpoint_gpu_h += hours(seconds, used_);
      result_.idle_gpu_h += hours(seconds, live_ - used_);
      write_left_s_ = seconds >= write_left_s_ ? 0 : write_left_s_ - seconds;
      now_s_ += seconds;
      if (write_left_s_ == 0) written();
      continue;
    }
    const double every_s = setup_.checkpoints.every_s;
    const double left_s = every_s > 0 ? every_s - period_s_ : policy::kNever;
    const bool reaches = left_s <= to_s - now_s_;
    train(reaches ? left_s : to_s - now_s_);
    if (!reaches) {
      now_s_ = to_s;  // not the sum: it may fall short by a rounding
      return;
    }
    now_s_ += left_s;
    write_now();
  }
}

double Ledger::write_now() {
  period_s_ = 0;
  write_left_s_ = setup_.checkpoints.write_s;
  if (write_left_s_ == 0) written();
  return write_left_s_;
}

void Ledger::written() {
  write_left_s_ = 0;
  saved_samples_ = samples_;
  unsaved_s_ = unsaved_gpu_h_ = 0;
}

void Ledger::train(double seconds) {
  samples_ += rate_ * seconds;
  period_s_ += seconds;
  train_s_ += seconds;
  unsaved_s_ += seconds;
  unsaved_gpu_h_ += hours(seconds, used_);
  result_.training_gpu_h += hours(seconds, used_);
  result_.idle_gpu_h += hours(seconds, live_ - used_);
}

double Ledger::step_left_s() const {
  if (rate_ <= 0) return 0;
  const double steps = samples_ / setup_.samples_per_step;
  return (std::ceil(steps) - steps) * step_s();
}

void Ledger::lose(double samples, double seconds, double gpu_h) {
  samples_ -= samples;
  train_s_ -= seconds;
  result_.lost_samples += samples;
  result_.training_gpu_h -= gpu_h;
  result_.lost_gpu_h += gpu_h;
}

void Ledger::roll_back() {
  lose(samples_ - saved_samples_, unsaved_s_, unsaved_gpu_h_);
  samples_ = saved_samples_;
  unsaved_s_ = unsaved_gpu_h_ = 0;
  period_s_ = 0;
  write_left_s_ = 0;  // the one being written is worth nothing
}

void Ledger::lose_step() {
  const double step = setup_.samples_per_step;
  const double whole = std::floor(samples_ / step + 1e-9) * step;
  const double part = std::clamp(samples_ - whole, 0.0, samples_ - saved_samples_);
  if (part <= 0 || unsaved_s_ <= 0) return;
  const double share = part / (samples_ - saved_samples_);
  const double seconds = unsaved_s_ * share;
  const double gpu_h = unsaved_gpu_h_ * share;
  lose(part, seconds, gpu_h);
  unsaved_s_ -= seconds;
  unsaved_gpu_h_ -= gpu_h;
  period_s_ = std::max(0.0, period_s_ - seconds);
}

void Ledger::note() {
  const bool stands = paused() || rate_ <= 0;
  add_phase(result_.phases, {.from_s = now_s_, .live = live_, .used = used_, .samples_per_s = stands ? 0 : rate_});
}

policy::RecoveryResult Ledger::result() {
  result_.to_s = now_s_;
  if (!started_) result_.from_s = now_s_;
  result_.samples = samples_;
  result_.steps = static_cast<int64_t>(std::floor(samples_ / setup_.samples_per_step + 1e-9));
  const double span_s = result_.to_s - result_.from_s;
  if (span_s > 0) {
    result_.samples_per_s = samples_ / span_s;
    result_.ettr = train_s_ / span_s;
  }
  if (now_s_ > 0) result_.mean_hosts = host_s_ / now_s_;
  result_.usd = host_s_ / 3600 * setup_.usd_per_host_hour;
  return result_;
}

}  // namespace scalai::jobs::recovery::internal
