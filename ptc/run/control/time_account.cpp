#include "ptc/run/control/internal/time_account.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace scalai::control {
namespace {

// Ends of steps are sums of products of doubles: a rest of this share of the time is rounding.
constexpr double kRounding = 1e-9;

}  // namespace

double TimeAccount::take(double at_s) {
  const double length_s = std::max(0.0, at_s - since_s_);
  since_s_ = std::max(since_s_, at_s);
  return length_s;
}

void TimeAccount::add_wait(const std::string& reason, double seconds) {
  if (seconds <= 0) return;
  down_.waiting_s += seconds;
  const auto known = std::find_if(down_.waits.begin(), down_.waits.end(),
                                  [&](const WaitRecord& wait) { return wait.reason == reason; });
  if (known == down_.waits.end()) {
    down_.waits.push_back({.reason = reason, .seconds = seconds});
  } else {
    known->seconds += seconds;
  }
}

void TimeAccount::waited(double at_s) { add_wait(reason_, take(at_s)); }

void TimeAccount::wait_to_the_end() {
  for (WaitRecord& wait : down_.waits) wait.until_end = wait.reason == reason_;
}

void TimeAccount::trained(const Training& training, int64_t steps, double at_s) {
  stood_for_copy(std::min(at_s, training.start_s));
  const double in_steps_s = steps > 0 ? static_cast<double>(steps) * training.step_s : 0;
  const double rest_s = take(at_s) - in_steps_s;
  if (steps > 0) {
    const int64_t until = training.from_step + steps;
    const bool goes_on = !steps_.empty() && steps_.back().until == training.from_step &&
                         steps_.back().step_s == training.step_s && steps_.back().more_samples == training.more_samples;
    if (goes_on) {
      steps_.back().until = until;
    } else {
      steps_.push_back({.from = training.from_step,
                        .until = until,
                        .step_s = training.step_s,
                        .more_samples = training.more_samples});
    }
  }
  if (rest_s <= kRounding * std::max(1.0, at_s)) return;
  if (std::isinf(training.step_s)) {
    add_wait("a link is down", rest_s);
  } else {
    down_.cut_off_s += rest_s;
  }
}

int64_t TimeAccount::more_samples() const {
  int64_t sum = 0;
  for (const Steps& steps : steps_) sum += (steps.until - steps.from) * steps.more_samples;
  return sum;
}

void TimeAccount::roll_back(int64_t step) {
  while (!steps_.empty() && steps_.back().until > step) {
    Steps& last = steps_.back();
    const int64_t kept = std::max(step, last.from);
    down_.run_again_s += static_cast<double>(last.until - kept) * last.step_s;
    last.until = kept;
    if (last.until == last.from) steps_.pop_back();
  }
}

}  // namespace scalai::control
