#include "sim/jobs/internal/training.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::jobs::internal {
namespace {

// Seconds of training in the first `phase` seconds after a checkpoint: every_s of them, write_s standing still, and
// again.
double trained(double phase, const Checkpoints& c) {
  if (c.every_s <= 0 || c.write_s <= 0) return phase;
  const double period = c.every_s + c.write_s;
  const double whole = std::floor(phase / period);
  return whole * c.every_s + std::min(phase - whole * period, c.every_s);
}

// When `seconds` of training are done: a checkpoint due at the very end is not waited for.
double phase_of(double seconds, const Checkpoints& c) {
  if (c.every_s <= 0 || c.write_s <= 0) return seconds;
  return seconds + c.write_s * std::max(0.0, std::ceil(seconds / c.every_s) - 1);
}

}  // namespace

double Training::work(double now_s, const Checkpoints& c) const {
  if (per_s_ == 0 || now_s == at_s_) return work_;
  return work_ + per_s_ * (trained(phase_s_ + (now_s - at_s_), c) - trained(phase_s_, c));
}

void Training::settle(double now_s, const Checkpoints& c) {
  SCALAI_CHECK(now_s >= at_s_);
  if (per_s_ > 0 && c.every_s > 0) {
    const double period = c.every_s + std::max(0.0, c.write_s);
    const double phase = phase_s_ + (now_s - at_s_);
    const double complete = std::floor(phase / period);
    if (complete > 0) saved_ = work_ + per_s_ * (complete * c.every_s - trained(phase_s_, c));
    work_ = work(now_s, c);
    phase_s_ = phase - complete * period;
  } else {
    work_ = work(now_s, c);
  }
  at_s_ = now_s;
}

void Training::set_rate(double now_s, double per_s, const Checkpoints& c) {
  settle(now_s, c);
  per_s_ = per_s;
}

double Training::time_of(double work, const Checkpoints& c) const {
  if (per_s_ <= 0) return policy::kNever;
  if (work <= work_) return at_s_;
  const double seconds = (work - work_) / per_s_;
  if (c.every_s <= 0 || c.write_s <= 0) return at_s_ + seconds;
  return at_s_ + std::max(0.0, phase_of(trained(phase_s_, c) + seconds, c) - phase_s_);
}

void Training::save(double now_s, const Checkpoints& c) {
  settle(now_s, c);
  per_s_ = 0;
  saved_ = work_;
  phase_s_ = 0;
}

double Training::lose(double now_s, const Checkpoints& c) {
  settle(now_s, c);
  per_s_ = 0;
  phase_s_ = 0;
  if (c.every_s <= 0) return 0;
  const double lost = work_ - saved_;
  work_ = saved_;
  return lost;
}

void Training::drop(double iterations) {
  SCALAI_CHECK(iterations >= 0 && per_s_ == 0);
  work_ = std::max(0.0, work_ - iterations);
  saved_ = std::min(saved_, work_);
}

}  // namespace scalai::jobs::internal
