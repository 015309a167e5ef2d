#include "vfs/remote/retry.h"

#include <gtest/gtest.h>

#include <vector>

namespace scalai::vfs {
namespace {

TEST(WorthRetrying, IsWhatPasses) {
  for (const int status : {408, 429, 500, 502, 503, 504}) EXPECT_TRUE(worth_retrying(status)) << status;
  for (const int status : {200, 206, 301, 400, 401, 403, 404, 410, 412, 416, 501, 505}) {
    EXPECT_FALSE(worth_retrying(status)) << status;
  }
}

std::vector<double> waits(const RetryPolicy& policy, uint64_t seed) {
  RequestWaits backoff(policy, seed);
  std::vector<double> all;
  while (const std::optional<double> wait = backoff.next_wait({})) all.push_back(*wait);
  EXPECT_EQ(backoff.attempts(), policy.attempts);
  return all;
}

TEST(RequestWaits, DoublesUpToTheLongestWithJitter) {
  const RetryPolicy policy = {.attempts = 7, .first_wait_s = 1, .longest_wait_s = 8};
  const std::vector<double> steps = {1, 2, 4, 8, 8, 8};
  bool all_alike = true;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<double> found = waits(policy, seed);
    ASSERT_EQ(found.size(), steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_GE(found[i], steps[i] / 2);
      EXPECT_LT(found[i], steps[i]);
    }
    all_alike = all_alike && found == waits(policy, 1);
    EXPECT_EQ(found, waits(policy, seed));
  }
  EXPECT_FALSE(all_alike) << "no jitter";
}

TEST(RequestWaits, WaitsAsLongAsTheServerAsksFor) {
  RequestWaits backoff({.attempts = 3, .first_wait_s = 1, .longest_wait_s = 2, .longest_retry_after_s = 30}, 1);
  EXPECT_EQ(backoff.next_wait(30), 30);
  const std::optional<double> ours = backoff.next_wait(0);  // ours is longer
  ASSERT_TRUE(ours);
  EXPECT_GE(*ours, 1);
  EXPECT_FALSE(backoff.next_wait(1)) << "a fourth attempt";
}

TEST(RequestWaits, GivesUpWhenTheServerAsksForTooMuch) {
  RequestWaits backoff({.attempts = 9, .longest_retry_after_s = 30}, 1);
  EXPECT_FALSE(backoff.next_wait(31));
}

TEST(RequestWaits, OneAttemptIsNoRetry) { EXPECT_TRUE(waits({.attempts = 1}, 1).empty()); }

}  // namespace
}  // namespace scalai::vfs
