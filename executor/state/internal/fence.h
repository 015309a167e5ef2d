#pragma once
// The fences between the words of a segment's header and the bytes that they guard.

#include <atomic>

namespace scalai::executor::state::internal {

// ThreadSanitizer knows no fences (GCC refuses them); it watches one process and these order two.
inline void fence() {
#if defined(__SANITIZE_THREAD__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace scalai::executor::state::internal
