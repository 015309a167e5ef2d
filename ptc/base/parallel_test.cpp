#include "ptc/base/parallel.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <barrier>
#include <set>

#include "ptc/base/status.h"

namespace scalai {
namespace {

TEST(Parallel, RunsAllOnce) {
  for (const int threads : {-1, 0, 1, 3, 20}) {
    for (const size_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> runs(count);
      parallel_for(threads, count, [&](size_t i) { ++runs[i]; });
      for (const auto& times : runs) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Parallel, OneThreadIsTheCallersAndGoesInOrder) {
  std::vector<size_t> order;
  parallel_for(1, 5, [&](size_t i) { order.push_back(i); });
  EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3, 4}));
}

// No thread can be made with a stack of this size.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    EXPECT_EQ(::pthread_attr_init(&huge_), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge_, size_t{1} << 46), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge_), 0);
  }
  ~NoThreads() {
    EXPECT_EQ(::pthread_setattr_default_np(&before_), 0);
    ::pthread_attr_destroy(&huge_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_ = {}, huge_ = {};
};

TEST(Parallel, GoesOnWithoutThreads) {
  const NoThreads none;
  std::atomic<int> done = 0;
  parallel_for(8, 100, [&](size_t) { ++done; });
  EXPECT_EQ(done, 100);
}

// Work that waits for other work cannot go on with fewer threads: none of it begins.
TEST(Concurrent, AllBeginOrNone) {
  const NoThreads none;
  std::atomic<int> begun = 0;
  EXPECT_TRUE(absl::IsResourceExhausted(run_concurrently(2, [&](size_t) { ++begun; })));
  EXPECT_EQ(begun, 0);
  EXPECT_TRUE(run_concurrently(1, [&](size_t) { ++begun; }).ok());
  EXPECT_EQ(begun, 1);
}

TEST(TryParallel, RunsAllOnceOrStopsAtAnError) {
  for (const int threads : {-1, 1, 3, 20}) {
    std::vector<std::atomic<int>> runs(100);
    const absl::Status all = try_parallel_for(threads, runs.size(), [&](size_t i) {
      ++runs[i];
      return absl::OkStatus();
    });
    EXPECT_TRUE(all.ok()) << all;
    for (const auto& count : runs) EXPECT_EQ(count, 1);
    std::atomic<int> begun = 0;
    const absl::Status status = try_parallel_for(threads, 100000, [&](size_t i) {
      ++begun;
      return i == 10 ? invalid("ten") : absl::OkStatus();
    });
    EXPECT_EQ(message_of(status), "ten");
    EXPECT_LT(begun, 100000);
  }
}

TEST(Concurrent, EachHasAThreadOfItsOwn) {
  EXPECT_TRUE(run_concurrently(0, [](size_t) { FAIL(); }).ok());
  constexpr std::ptrdiff_t kCount = 5;
  std::barrier together(kCount);  // passed only when all are there
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::thread::id first;
  const absl::Status begun = run_concurrently(kCount, [&](size_t i) {
    together.arrive_and_wait();
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    if (i == 0) first = std::this_thread::get_id();
  });
  EXPECT_TRUE(begun.ok()) << begun;
  EXPECT_EQ(threads.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(first, std::this_thread::get_id());
}

TEST(HardwareThreads, AreAtLeastOne) { EXPECT_GE(hardware_threads(), 1u); }

}  // namespace
}  // namespace scalai
