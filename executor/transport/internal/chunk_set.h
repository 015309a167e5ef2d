#pragma once
// The parts of an answer that have come. They come in order, nearly, so this holds one range or a few.

#include <cstdint>
#include <iterator>
#include <map>

namespace scalai::executor::transport::internal {

class ChunkSet {
 public:
  enum class Fit {
    kNew,
    kAgain,     // all of it came before, or it is empty
    kOverlaps,  // a part of it came before
  };
  // Adds [offset, offset + bytes) if it is new.
  Fit add(int64_t offset, int64_t bytes) {
    if (bytes == 0) return Fit::kAgain;
    const int64_t end = offset + bytes;
    auto next = ends_.upper_bound(offset);  // the first range that begins behind `offset`
    const auto before = next == ends_.begin() ? ends_.end() : std::prev(next);
    if (before != ends_.end() && before->second >= end) return Fit::kAgain;
    if (before != ends_.end() && before->second > offset) return Fit::kOverlaps;
    if (next != ends_.end() && next->first < end) return Fit::kOverlaps;
    const bool joins = before != ends_.end() && before->second == offset;
    const auto whole = joins ? before : ends_.emplace(offset, end).first;
    whole->second = end;
    if (next != ends_.end() && next->first == end) {
      whole->second = next->second;
      ends_.erase(next);
    }
    return Fit::kNew;
  }
  size_t ranges() const { return ends_.size(); }

 private:
  std::map<int64_t, int64_t> ends_;  // by begin; no two touch
};

}  // namespace scalai::executor::transport::internal
