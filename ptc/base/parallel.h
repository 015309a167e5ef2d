#pragma once
// Independent pieces of work on several threads. Every function returns when all threads are done.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "ptc/base/work_done.h"

namespace scalai {

// Threads that the machine runs at the same time; at least 1, also where the system does not say.
inline unsigned hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

// Starts `count` threads with the same work, or as many as the system has room for: who calls goes on with these, and
// joins them.
inline std::vector<std::thread> start_threads(size_t count, const std::function<void()>& work) {
  std::vector<std::thread> threads;
  try {
    threads.reserve(count);
    while (threads.size() < count) threads.emplace_back(work);
  } catch (const std::exception&) {
  }
  return threads;
}

// work(i) for all i below `count`, in order of beginning, on up to `threads` threads, the caller's among them; at least
// on that one. Each counts as work done (work_done.h). Work must not throw, and must not wait for other work.
inline void parallel_for(int threads, size_t count, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      work(i);
      note_work_done();
    }
  };
  const size_t most = std::min(static_cast<size_t>(std::max(threads, 1)), count);
  std::vector<std::thread> others = start_threads(most > 1 ? most - 1 : 0, run);
  run();
  for (std::thread& thread : others) thread.join();
}

// The same with work that may fail: the first error stops what has not begun, and is the answer.
inline absl::Status try_parallel_for(int threads, size_t count, const std::function<absl::Status(size_t)>& work) {
  std::atomic<bool> stop = false;
  std::mutex mutex;
  absl::Status first;
  parallel_for(threads, count, [&](size_t i) {
    if (stop) return;
    const absl::Status status = work(i);
    if (status.ok()) return;
    stop = true;
    const std::lock_guard lock(mutex);
    if (first.ok()) first = status;
  });
  return first;
}

// work(i) for all i below `count` at the same time, each on a thread of its own: work may wait for other work. The
// caller runs work(0). Work must not throw. ResourceExhausted: the system has no room for as many threads, and no work
// was begun.
[[nodiscard]] inline absl::Status run_concurrently(size_t count, const std::function<void(size_t)>& work) {
  enum Gate { kClosed, kOpen, kCancelled };
  std::atomic<Gate> gate = kClosed;
  std::vector<std::thread> others;
  bool all = true;
  try {
    others.reserve(count);
    for (size_t i = 1; i < count; ++i) {
      others.emplace_back([&work, &gate, i] {
        gate.wait(kClosed);
        if (gate == kOpen) work(i);
      });
    }
  } catch (const std::exception&) {
    all = false;
  }
  gate = all ? kOpen : kCancelled;
  gate.notify_all();
  if (all && count > 0) work(0);
  for (std::thread& thread : others) thread.join();
  if (all) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "the system has no room for more threads (see ulimit -u, and pids.max of its group)");
}

}  // namespace scalai
