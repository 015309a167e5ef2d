#pragma once
// Splits work into batches of descriptors that fit a buffer of fixed size. Any thread.

#include <algorithm>
#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {

// Calls put(items, batch) for batches of consecutive items, in order, each with size(batch) <= room; stops at an error.
// make(items) creates a batch; `item_bytes` (> 0) is the usual size of one item, some are larger. CHECK: one item fits.
template <class Item, class Make, class Size, class Put>
absl::Status for_each_fitting(std::span<const Item> items, size_t room, size_t item_bytes, Make make, Size size,
                              Put put) {
  while (!items.empty()) {
    size_t count = std::clamp<size_t>(room / item_bytes, 1, items.size());
    auto batch = make(items.first(count));
    while (size(batch) > room) {
      SCALAI_CHECK(count > 1, "one item does not fit");
      count /= 2;
      batch = make(items.first(count));
    }
    SCALAI_RETURN_IF_ERROR(put(items.first(count), batch));
    items = items.subspan(count);
  }
  return {};
}

}  // namespace scalai::executor::cuda
