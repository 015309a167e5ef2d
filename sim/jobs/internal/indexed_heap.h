#pragma once
// The earliest of many times that move: a binary heap of (time, id) in which an id's time can be set and removed. Ties
// by id.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace scalai::jobs::internal {

class IndexedHeap {
 public:
  explicit IndexedHeap(size_t ids) : slot_of_(ids, kNone) {}

  bool empty() const { return heap_.empty(); }
  double top_time() const { return heap_.empty() ? std::numeric_limits<double>::infinity() : heap_.front().first; }
  int32_t top() const { return heap_.front().second; }

  void set(int32_t id, double time) {
    size_t slot = slot_of_[static_cast<size_t>(id)];
    if (slot == kNone) {
      slot = heap_.size();
      heap_.emplace_back(time, id);
      slot_of_[static_cast<size_t>(id)] = slot;
    } else {
      heap_[slot].first = time;
    }
    down(up(slot));
  }

  void remove(int32_t id) {
    const size_t slot = slot_of_[static_cast<size_t>(id)];
    if (slot == kNone) return;
    slot_of_[static_cast<size_t>(id)] = kNone;
    const std::pair<double, int32_t> last = heap_.back();
    heap_.pop_back();
    if (slot == heap_.size()) return;
    put(slot, last);
    down(up(slot));
  }

 private:
  static constexpr size_t kNone = ~size_t{0};

  void put(size_t slot, std::pair<double, int32_t> entry) {
    heap_[slot] = entry;
    slot_of_[static_cast<size_t>(entry.second)] = slot;
  }

  size_t up(size_t slot) {
    const std::pair<double, int32_t> entry = heap_[slot];
    while (slot > 0 && entry < heap_[(slot - 1) / 2]) {
      put(slot, heap_[(slot - 1) / 2]);
      slot = (slot - 1) / 2;
    }
    put(slot, entry);
    return slot;
  }

  void down(size_t slot) {
    const std::pair<double, int32_t> entry = heap_[slot];
    for (size_t child = 2 * slot + 1; child < heap_.size(); child = 2 * slot + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < entry)) break;
      put(slot, heap_[child]);
      slot = child;
    }
    put(slot, entry);
  }

  std::vector<std::pair<double, int32_t>> heap_;
  std::vector<size_t> slot_of_;
};

}  // namespace scalai::jobs::internal
