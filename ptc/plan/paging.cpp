#include "ptc/plan/paging.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ptc/plan/internal/difference.h"
#include "ptc/plan/internal/rounds.h"

namespace scalai::plan {
namespace {

constexpr int64_t kNothingArrives = std::numeric_limits<int64_t>::max();

// Devices by their number in plan.memory().
class Exchange {
 public:
  Exchange(const PlannerInput& input, const std::vector<DeviceMemory>& memory, int64_t memory_cap)
      : input_(input),
        memory_(memory),
        index_(memory),
        copies_to_(memory.size()),
        needed_(memory.size(), 0),
        smallest_(memory.size(), kNothingArrives),
        cap_(memory_cap) {
    const internal::Difference difference = internal::difference_of(input);
    for (const internal::GroupDifference& group : difference.groups) {
      for (const internal::Overlap& overlap : group.overlaps) add(difference, group, overlap);
    }
  }

  PagingBound bound() {
    const PagingBound first = first_arrival(), largest = largest_box();
    return largest.bytes > first.bytes ? largest : first;
  }

 private:
  PagingBound largest_box() const {
    int64_t limits = 0;
    for (size_t device = 0; device < memory_.size(); ++device) limits += std::min(limit(device), largest_ + state_);
    const int64_t over = largest_ + state_ - limits;
    if (over <= 0) return {};
    return {over, "largest box", memory_[largest_at_].device, over};
  }

  PagingBound first_arrival() {
    PagingBound bound;
    for (const std::vector<size_t>& component : closed_components()) {
      int64_t least = kNothingArrives;
      size_t where = 0;
      for (const size_t device : component) {
        if (smallest_[device] == kNothingArrives) continue;
        const int64_t over = std::max<int64_t>(0, needed_[device] + smallest_[device] - limit(device));
        if (over < least) least = over, where = device;
      }
      if (least == kNothingArrives) continue;
      bound.bytes += least;
      if (least > 0) bound.by = "first arrival";
      if (least > bound.device_bytes) bound.device_bytes = least, bound.device = memory_[where].device;
    }
    return bound;
  }

  void add(const internal::Difference& difference, const internal::GroupDifference& group,
           const internal::Overlap& overlap) {
    const auto first = static_cast<size_t>(group.tensors.front().value);
    const auto now = input_.to.tensors[first].dtype, before = input_.from.tensors[first].dtype;
    const auto tensors = static_cast<int64_t>(group.tensors.size());
    const int64_t box = overlap.box.volume() * tensor::size_of(now);
    const int64_t old = overlap.box.volume() * tensor::size_of(before);
    static const std::vector<DeviceId> kNobody;
    const std::vector<DeviceId>& holders = overlap.holders >= 0 ? difference.old_sets[overlap.holders] : kNobody;
    const std::vector<DeviceId>& wanting = difference.new_sets[overlap.wanting];
    const bool once = overlap.side != internal::Overlap::Side::kLocal;  // kRemote has the same elements again
    const bool derived = difference.derived_from[first].valid();        // then nobody needs the old parameters
    const bool needed = once && !derived && overlap.copies < 0 && !holders.empty() && !wanting.empty();
    if (needed) state_ += tensors * std::min(old, box);
    for (const DeviceId device : wanting) {
      const bool holds = std::find(holders.begin(), holders.end(), device) != holders.end();
      if (holds && overlap.whole && now == before) continue;  // stays in place
      const size_t to = index_[device];
      smallest_[to] = std::min(smallest_[to], box);
      if (needed && holders.size() == 1) copies_to_[index_[holders.front()]].insert(to);
      if (needed && box > largest_) largest_ = box, largest_at_ = to;
    }
    if (needed && holders.size() == 1) needed_[index_[holders.front()]] += tensors * old;
  }

  int64_t limit(size_t device) const { return std::max(memory_[device].before, memory_[device].after) + cap_; }

  // Strongly connected components without a way out, by Tarjan's algorithm (1972); without recursion, since a chain of
  // devices may be long. A component is complete when those that it leads to are.
  std::vector<std::vector<size_t>> closed_components() {
    std::vector<std::vector<size_t>> closed;
    number_.assign(copies_to_.size(), 0);
    low_ = component_ = number_;
    for (size_t device = 0; device < copies_to_.size(); ++device) {
      if (number_[device] == 0) visit(device, closed);
    }
    return closed;
  }

  struct Frame {
    size_t device = 0;
    std::set<size_t>::const_iterator next;
  };

  void visit(size_t start, std::vector<std::vector<size_t>>& closed) {
    std::vector<Frame> frames;
    const auto enter = [&](size_t device) {
      number_[device] = low_[device] = ++numbers_;
      open_.push_back(device);
      frames.push_back({device, copies_to_[device].begin()});
    };
    enter(start);
    while (!frames.empty()) {
      const size_t device = frames.back().device;
      if (frames.back().next != copies_to_[device].end()) {
        const size_t to = *frames.back().next++;
        if (number_[to] == 0) {
          enter(to);
        } else if (component_[to] == 0) {
          low_[device] = std::min(low_[device], number_[to]);
        }
        continue;
      }
      frames.pop_back();
      if (!frames.empty()) low_[frames.back().device] = std::min(low_[frames.back().device], low_[device]);
      if (low_[device] == number_[device]) close(device, closed);
    }
  }

  void close(size_t root, std::vector<std::vector<size_t>>& closed) {
    ++components_;
    std::vector<size_t> members;
    do {
      members.push_back(open_.back());
      component_[open_.back()] = components_;
      open_.pop_back();
    } while (members.back() != root);
    const bool leaves = std::any_of(members.begin(), members.end(), [&](size_t device) {
      return std::any_of(copies_to_[device].begin(), copies_to_[device].end(),
                         [&](size_t to) { return component_[to] != components_; });
    });
    if (!leaves) closed.push_back(std::move(members));
  }

  const PlannerInput& input_;
  const std::vector<DeviceMemory>& memory_;
  const internal::DeviceIndex index_;
  std::vector<std::set<size_t>> copies_to_;  // by device: those that copy its old boxes
  std::vector<int64_t> needed_, smallest_;   // smallest_: the smallest box that arrives
  int64_t largest_ = 0, state_ = 0;          // the largest box; state that devices held and somebody needs, once
  size_t largest_at_ = 0;
  const int64_t cap_;
  std::vector<size_t> number_, low_, component_, open_;
  size_t numbers_ = 0, components_ = 0;
};

}  // namespace

PagingBound paging_of_whole_boxes(const PlannerInput& input, const std::vector<DeviceMemory>& memory,
                                  int64_t memory_cap) {
  if (input.residency.storage) return {};
  return Exchange(input, memory, memory_cap).bound();
}

}  // namespace scalai::plan
