#include "ptc/run/policy/policies/shares/internal/assertion_guard.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

// As <assert.h> has it where assertions are on.
extern "C" void __assert_fail(const char* what, const char* file, unsigned line, const char* function) noexcept
    __attribute__((noreturn));

namespace scalai::policy::internal {
namespace {

[[noreturn]] void fail() { __assert_fail("one == two", "file.cpp", 12, "f"); }

TEST(AssertionGuard, ACallWhoseAssertionFailsIsSurvived) {
  int done = 0;
  EXPECT_TRUE(survives_assertions([&] { ++done; }));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(survives_assertions(fail));
  EXPECT_TRUE(survives_assertions([&] { ++done; }));
  EXPECT_EQ(done, 2);
}

TEST(AssertionGuard, OfSeveralThreadsEachItsOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> survived = 0, failed = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto every_second = [&](int i) {
        if ((i + t) % 2 == 0) fail();
      };
      for (int i = 0; i < 50; ++i) ++(survives_assertions([&] { every_second(i); }) ? survived : failed);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(survived, 100);
  EXPECT_EQ(failed, 100);
}

TEST(AssertionGuardDeathTest, WhateverElseAbortsEndsTheProcess) {
  EXPECT_DEATH(survives_assertions([] { ::abort(); }), "");
  const auto afterwards = [](const auto& call) {
    try {
      survives_assertions(call);
    } catch (const std::runtime_error&) {
    }
    fail();
  };
  EXPECT_DEATH(afterwards([] {}), "file.cpp:12: f: Assertion `one == two' failed.");
  EXPECT_DEATH(afterwards([] { throw std::runtime_error("x"); }), "file.cpp:12: f: Assertion `one == two' failed.");
}

}  // namespace
}  // namespace scalai::policy::internal
