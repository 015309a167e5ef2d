#pragma once
// Retry rules of a request: pauses of ptc/base/backoff.h, and what the server asks for. Values without a clock. One
// thread uses a RequestWaits.

#include <cstdint>
#include <functional>
#include <optional>

#include "ptc/base/backoff.h"

namespace scalai::vfs {

struct RetryPolicy {
  int attempts = 6;                           // of one request, the first one included
  double first_wait_s = 0.2;                  // before the second attempt; doubles from there
  double longest_wait_s = 10;                 // longest wait of the backoff
  double longest_retry_after_s = 60;          // a server that asks for more fails the request at once
  double total_s = 60;                        // of one read, all attempts and waits; 0: no limit
  uint64_t jitter_seed = 0;                   // 0: different in each process
  std::function<void(double seconds)> sleep;  // empty: the thread sleeps; called by reading threads
};

// 408, 429, and the transient server errors 500, 502, 503, 504.
bool worth_retrying(int http_status);

// The waits of one request.
class RequestWaits {
 public:
  RequestWaits(const RetryPolicy& policy, uint64_t seed);

  // Seconds until the next attempt: random in [step/2, step], or the server's Retry-After if longer. nullopt: no
  // attempt is left, or the server asked for too long a wait.
  std::optional<double> next_wait(std::optional<double> retry_after_s);
  int attempts() const { return attempts_; }  // made so far, including the one that just failed

 private:
  RetryPolicy policy_;
  Backoff backoff_;
  int attempts_ = 0;
};

}  // namespace scalai::vfs
