#include "executor/state/free_space.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "ptc/base/status.h"

namespace scalai::executor::state::internal {

std::optional<uint64_t> FreeSpace::take(int64_t bytes) {
  SCALAI_CHECK(bytes > 0, std::to_string(bytes));
  const auto fit = by_size_.lower_bound({static_cast<uint64_t>(bytes), 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [size, begin] = *fit;
  drop(by_begin_.find(begin));
  const uint64_t rest = size - static_cast<uint64_t>(bytes);
  if (rest > 0) give(begin + static_cast<uint64_t>(bytes), static_cast<int64_t>(rest));
  return begin;
}

void FreeSpace::give(uint64_t begin, int64_t bytes) {
  uint64_t end = begin + static_cast<uint64_t>(bytes);
  SCALAI_CHECK(bytes > 0 && end > begin, std::to_string(begin) + " + " + std::to_string(bytes));
  auto next = by_begin_.lower_bound(begin);
  SCALAI_CHECK(next == by_begin_.end() || next->first >= end, std::to_string(begin));
  if (next != by_begin_.end() && next->first == end) {
    end = next->second;
    next = drop(next);
  }
  if (next != by_begin_.begin()) {
    const auto before = std::prev(next);
    SCALAI_CHECK(before->second <= begin, std::to_string(begin));
    if (before->second == begin) {
      begin = before->first;
      drop(before);
    }
  }
  by_begin_[begin] = end;
  by_size_.insert({end - begin, begin});
  bytes_ += static_cast<int64_t>(end - begin);
}

int64_t FreeSpace::largest() const {
  return by_size_.empty() ? 0 : static_cast<int64_t>(std::prev(by_size_.end())->first);
}

std::map<uint64_t, uint64_t>::iterator FreeSpace::drop(std::map<uint64_t, uint64_t>::iterator at) {
  by_size_.erase({at->second - at->first, at->first});
  bytes_ -= static_cast<int64_t>(at->second - at->first);
  return by_begin_.erase(at);
}

std::vector<std::pair<uint64_t, uint64_t>> add_range(Ranges& ranges, uint64_t begin, uint64_t end) {
  SCALAI_CHECK(begin < end, std::to_string(begin) + " to " + std::to_string(end));
  std::vector<std::pair<uint64_t, uint64_t>> added;
  uint64_t covered = begin;  // what lies before it is in the set, or in `added`
  uint64_t first = begin;
  uint64_t last = end;
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && std::prev(at)->second >= begin) --at;
  while (at != ranges.end() && at->first <= end) {
    if (covered < at->first) added.emplace_back(covered, at->first);
    covered = std::max(covered, at->second);
    first = std::min(first, at->first);
    last = std::max(last, at->second);
    at = ranges.erase(at);
  }
  if (covered < end) added.emplace_back(covered, end);
  ranges[first] = last;
  return added;
}

}  // namespace scalai::executor::state::internal
