#include "ptc/base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>

namespace scalai {
namespace {

TEST(ThreadTest, RunsItsWork) {
  std::atomic<int> runs = 0;
  auto thread = start_thread([&] { ++runs; });
  ASSERT_TRUE(thread.ok()) << thread.status();
  thread->join();
  EXPECT_EQ(runs, 1);
}

TEST(ThreadTest, WithoutRoomItIsAnError) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);  // no machine has so many addresses
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  std::atomic<int> runs = 0;
  const auto thread = start_thread([&] { ++runs; });
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(thread.status())) << thread.status();
  EXPECT_EQ(runs, 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&before);
}

}  // namespace
}  // namespace scalai
