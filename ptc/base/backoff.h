#pragma once
// Pauses between attempts at what failed: they double, up to a longest one, and differ between those that failed
// together. A value without a clock; the caller sleeps, and bounds attempts or time. docs/design.md section 7 lists all
// retries.

#include <algorithm>
#include <cstdint>

#include "ptc/base/random.h"

namespace scalai {

class Backoff {
 public:
  // 0 <= first_s; equal seeds give equal pauses.
  Backoff(double first_s, double longest_s, uint64_t seed)
      : random_(seed), longest_s_(longest_s), step_s_(std::min(first_s, longest_s)) {}

  // Seconds until the next attempt: random in [step / 2, step].
  double next_s() {
    const double wait_s = step_s_ * (0.5 + 0.5 * random_.uniform());
    step_s_ = std::min(2 * step_s_, longest_s_);
    return wait_s;
  }

 private:
  Random random_;
  double longest_s_;
  double step_s_;
};

}  // namespace scalai
