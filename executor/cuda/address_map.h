#pragma once
// AddressMap: the GPU of an address. It holds the ranges that the back end created; all other addresses are host
// memory. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>

namespace scalai::executor::cuda {

class AddressMap {
 public:
  static constexpr int kHost = -1;

  // bytes > 0; CHECK: no overlap with another range.
  void add(const std::byte* begin, int64_t bytes, int gpu);
  void remove(const std::byte* begin);  // CHECK: added
  int gpu_of(const std::byte* address) const;

 private:
  struct Range {
    uintptr_t end;
    int gpu;
  };
  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Range> ranges_;  // by begin
};

}  // namespace scalai::executor::cuda
