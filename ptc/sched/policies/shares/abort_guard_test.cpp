#include "ptc/sched/policies/shares/internal/abort_guard.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <stdexcept>
#include <thread>

namespace scalai::sched::internal {
namespace {

TEST(AbortGuard, ACallThatAbortsIsSurvived) {
  int done = 0;
  EXPECT_TRUE(survives_abort([&] { ++done; }));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(survives_abort([] { ::abort(); }));
  EXPECT_TRUE(survives_abort([&] { ++done; }));
  EXPECT_EQ(done, 2);
}

TEST(AbortGuard, OfSeveralThreadsEachItsOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> survived = 0, aborted = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        ++(survives_abort([&] { (i + t) % 2 == 0 ? ::abort() : void(); }) ? survived : aborted);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(survived, 100);
  EXPECT_EQ(aborted, 100);
}

TEST(AbortGuardDeathTest, OtherAbortsEndTheProcess) {
  EXPECT_DEATH(
      {
        survives_abort([] {});
        ::abort();
      },
      "");
  EXPECT_DEATH(
      {
        try {
          survives_abort([] { throw std::runtime_error("x"); });
        } catch (const std::runtime_error&) {
        }
        ::abort();
      },
      "");
}

}  // namespace
}  // namespace scalai::sched::internal
