#pragma once
// A binary heap that leaves events of equal key in the same order as CPython's heapq does: the published simulators
// look at the heap's array itself (its last element ends the run; a checkpoint fails when a removal stands before it),
// so the array must be theirs. Pop sinks the hole to a leaf along the smaller children, then lets the last element
// rise.

#include <cstddef>
#include <utility>
#include <vector>

namespace scalai::policy::validation {

template <typename Event>  // with operator<
class EventHeap {
 public:
  const std::vector<Event>& array() const { return events_; }
  bool empty() const { return events_.empty(); }

  void append(Event event) { events_.push_back(std::move(event)); }  // heapify() before the next push or pop
  void heapify() {
    for (size_t i = events_.size() / 2; i-- > 0;) sink(i);
  }

  void push(Event event) {
    events_.push_back(std::move(event));
    rise(0, events_.size() - 1);
  }

  Event pop() {
    Event last = std::move(events_.back());
    events_.pop_back();
    if (events_.empty()) return last;
    std::swap(last, events_.front());
    sink(0);
    return last;
  }

 private:
  void rise(size_t top, size_t at) {
    Event event = std::move(events_[at]);
    while (at > top && event < events_[(at - 1) / 2]) {
      events_[at] = std::move(events_[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    events_[at] = std::move(event);
  }

  void sink(size_t at) {
    const size_t top = at;
    Event event = std::move(events_[at]);
    for (size_t child = 2 * at + 1; child < events_.size(); child = 2 * at + 1) {
      if (child + 1 < events_.size() && !(events_[child] < events_[child + 1])) ++child;
      events_[at] = std::move(events_[child]);
      at = child;
    }
    events_[at] = std::move(event);
    rise(top, at);
  }

  std::vector<Event> events_;
};

}  // namespace scalai::policy::validation
