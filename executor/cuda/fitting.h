#pragma once
// Batches of descriptors, each small enough for a buffer that never grows.

#include <algorithm>
#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {

// Calls put(items of it, batch) for batches made of consecutive items, in order, each with size(batch) <= room; stops at
// an error. make(items) is a batch; `item_bytes` (> 0) is what one item takes as a rule: some take more. One item's batch
// fits (CHECK).
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
