#pragma once
// PeerMemory: memory of a GPU that another process owns, mapped here by the descriptors of its parts (Memory::share). A
// training process maps the state that its worker keeps, and trains in it (python/module/gpu_memory.cpp).
//
// The driver is opened while the program runs (libcuda.so.1), and its types are declared in the source: this builds
// without CUDA. Parts stay in memory until both processes have let go of them.
//
// One thread at a time; data() from any thread. The destructor waits for the GPU's work and unmaps, so whoever has
// addresses of the memory keeps the object alive.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor::cuda {

class PeerMemory {
 public:
  // Reserves addresses for the offsets [begin, end) of the owner's memory on this process's GPU number `gpu`. Errors:
  // NotFound (no driver, no such GPU), ResourceExhausted (no addresses).
  static absl::StatusOr<std::unique_ptr<PeerMemory>> reserve(int gpu, uint64_t begin, uint64_t end);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Maps a part. The descriptor may be closed afterwards. Errors: InvalidArgument (outside of the reserved range, or
  // over another part), those of the driver; nothing is mapped then.
  absl::Status map(uint64_t offset, int64_t bytes, int descriptor);
  // Where [offset, offset + bytes) lies. Error: InvalidArgument (not all of it is mapped).
  absl::StatusOr<std::byte*> data(uint64_t offset, int64_t bytes) const;
  // False for a driver that keeps "GPU memory" in the host's, as that of the tests: the CPU reaches the addresses.
  bool on_gpu() const { return on_gpu_; }
  int gpu() const { return gpu_; }

 private:
  struct Driver;
  struct Part {
    uint64_t offset = 0;
    uint64_t end = 0;
    unsigned long long handle = 0;
  };
  class Current;
  PeerMemory(std::shared_ptr<const Driver> driver, int gpu);
  std::vector<Part>::const_iterator first_beyond(uint64_t offset) const;  // the first part that ends after it

  std::shared_ptr<const Driver> driver_;
  const int gpu_;
  int device_ = -1;          // the driver's; −1: its context was not retained
  void* context_ = nullptr;  // the GPU's primary context, which frameworks use
  unsigned long long base_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  std::vector<Part> parts_;  // by offset
  bool on_gpu_ = true;
};

}  // namespace scalai::executor::cuda
