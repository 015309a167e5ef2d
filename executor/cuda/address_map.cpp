#include "executor/cuda/address_map.h"

#include <iterator>
#include <mutex>

#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {
uintptr_t number(const std::byte* address) { return reinterpret_cast<uintptr_t>(address); }
}  // namespace

void AddressMap::add(const std::byte* begin, int64_t bytes, int gpu) {
  SCALAI_CHECK(bytes > 0 && gpu >= 0);
  const uintptr_t first = number(begin);
  const uintptr_t end = first + static_cast<uintptr_t>(bytes);
  const std::unique_lock lock(mutex_);
  const auto next = ranges_.lower_bound(first);
  SCALAI_CHECK(next == ranges_.end() || next->first >= end);
  SCALAI_CHECK(next == ranges_.begin() || std::prev(next)->second.end <= first);
  ranges_[first] = {end, gpu};
}

void AddressMap::remove(const std::byte* begin) {
  const std::unique_lock lock(mutex_);
  SCALAI_CHECK(ranges_.erase(number(begin)) == 1);
}

int AddressMap::gpu_of(const std::byte* address) const {
  const std::shared_lock lock(mutex_);
  const auto next = ranges_.upper_bound(number(address));
  if (next == ranges_.begin()) return kHost;
  const Range& range = std::prev(next)->second;
  return number(address) < range.end ? range.gpu : kHost;
}

}  // namespace scalai::executor::cuda
