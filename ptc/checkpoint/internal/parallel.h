#pragma once
// Independent pieces of work on several threads.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace scalai::checkpoint::internal {

// work(i) for all i below `count`, in order of beginning; returns when all are done. Nothing may throw.
inline void parallel_for(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < std::min(static_cast<size_t>(std::max(threads, 1)), count); ++t) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
}

}  // namespace scalai::checkpoint::internal
