#include "vfs/remote/retry.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::vfs {

bool worth_retrying(int http_status) {
  switch (http_status) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return true;
    default: return false;
  }
}

RequestWaits::RequestWaits(const RetryPolicy& policy, uint64_t seed)
    : policy_(policy), backoff_(policy.first_wait_s, policy.longest_wait_s, seed) {
  SCALAI_CHECK(policy.attempts >= 1 && policy.first_wait_s >= 0 && policy.longest_wait_s >= 0);
}

std::optional<double> RequestWaits::next_wait(std::optional<double> retry_after_s) {
  if (++attempts_ >= policy_.attempts) return std::nullopt;
  if (retry_after_s && *retry_after_s > policy_.longest_retry_after_s) return std::nullopt;
  return std::max(backoff_.next_s(), retry_after_s.value_or(0));
}

}  // namespace scalai::vfs
