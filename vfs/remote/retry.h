#pragma once
// When a failed request is worth another one, and how long to wait before it: exponential backoff with jitter, so that
// many readers that failed together do not come back together. Values; no clock in here.

#include <cstdint>
#include <functional>
#include <optional>

#include "ptc/base/random.h"

namespace scalai::vfs {

struct RetryPolicy {
  int attempts = 6;                           // of one request, the first one included
  double first_wait_s = 0.2;                  // before the second attempt; doubles from there
  double longest_wait_s = 10;                 // of a wait that we choose
  double longest_retry_after_s = 60;          // a server that asks for more is given up at once
  double total_s = 60;                        // of one read, over all attempts and waits; 0: no bound
  uint64_t jitter_seed = 0;                   // 0: another one in each process
  std::function<void(double seconds)> sleep;  // empty: the thread sleeps
};

// 408 and 429, and what a server answers when it is not well (500, 502, 503, 504).
bool worth_retrying(int http_status);

// The waits of one request.
class Backoff {
 public:
  Backoff(const RetryPolicy& policy, uint64_t seed);

  // Seconds until the next attempt: between half of the current step and all of it, or what the server asked for when
  // that is more. Nothing: the attempts are used up, or the server asked for too much.
  std::optional<double> next_wait(std::optional<double> retry_after_s);
  int attempts() const { return attempts_; }  // made so far, the one that has just failed included

 private:
  RetryPolicy policy_;
  Random random_;
  int attempts_ = 0;
  double step_s_;
};

}  // namespace scalai::vfs
