#pragma once
// A count of pieces of work that this process has done, of no particular size: a chunk of a file, a box, an item of a
// parallel loop. Long work counts as it goes, so that whoever waits for it can tell slow from stuck. Thread-safe; only
// its changes mean something.

#include <atomic>
#include <cstdint>

namespace scalai {
namespace internal {
inline std::atomic<uint64_t> work_done_count{0};
}  // namespace internal

inline void note_work_done() { internal::work_done_count.fetch_add(1, std::memory_order_relaxed); }
inline uint64_t work_done() { return internal::work_done_count.load(std::memory_order_relaxed); }

}  // namespace scalai
