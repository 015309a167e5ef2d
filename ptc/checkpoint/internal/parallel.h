#pragma once
// Independent pieces of work on several threads.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace scalai::checkpoint::internal {

// Starts `count` threads with the same work, or as many as the system has room for: who calls goes on with these.
inline std::vector<std::thread> start_threads(size_t count, const std::function<void()>& work) {
  std::vector<std::thread> threads;
  try {
    threads.reserve(count);
    while (threads.size() < count) threads.emplace_back(work);
  } catch (const std::exception&) {
  }
  return threads;
}

// work(i) for all i below `count`, in order of beginning; returns when all are done. Nothing may throw.
inline void parallel_for(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  const size_t most = std::min(static_cast<size_t>(std::max(threads, 1)), count);
  std::vector<std::thread> others = start_threads(most > 1 ? most - 1 : 0, run);
  run();
  for (std::thread& thread : others) thread.join();
}

}  // namespace scalai::checkpoint::internal
