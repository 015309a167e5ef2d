#pragma once
// Several pieces of memory addressed as one range of bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::executor::transport::internal {

template <class Byte>
class SpanList {
 public:
  SpanList() = default;
  // Empty spans are left out.
  explicit SpanList(std::vector<std::span<Byte>> spans) : spans_(std::move(spans)) {
    std::erase_if(spans_, [](const std::span<Byte>& span) { return span.empty(); });
    for (const std::span<Byte>& span : spans_) {
      starts_.push_back(bytes_);
      bytes_ += static_cast<int64_t>(span.size());
    }
  }

  int64_t bytes() const { return bytes_; }

  // [offset, offset + bytes) when it lies inside one span; else, and when it is empty, an empty span.
  std::span<Byte> in_place(int64_t offset, int64_t bytes) const {
    check(offset, bytes);
    if (bytes == 0) return {};
    const size_t index = index_of(offset);
    const int64_t inside = offset - starts_[index];
    if (inside + bytes > static_cast<int64_t>(spans_[index].size())) return {};
    return spans_[index].subspan(static_cast<size_t>(inside), static_cast<size_t>(bytes));
  }

  // Calls visit(distance from offset, part) for the parts of [offset, offset + bytes) in order.
  template <class Visit>
  void visit(int64_t offset, int64_t bytes, Visit visit) const {
    check(offset, bytes);
    int64_t done = 0;
    for (size_t index = bytes == 0 ? spans_.size() : index_of(offset); done < bytes; ++index) {
      const int64_t inside = offset + done - starts_[index];
      const int64_t size = std::min(bytes - done, static_cast<int64_t>(spans_[index].size()) - inside);
      visit(done, spans_[index].subspan(static_cast<size_t>(inside), static_cast<size_t>(size)));
      done += size;
    }
  }

 private:
  void check(int64_t offset, int64_t bytes) const {
    SCALAI_CHECK(offset >= 0 && bytes >= 0 && offset <= bytes_ - bytes, "a range outside the spans");
  }
  size_t index_of(int64_t offset) const {
    return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin()) - 1;
  }

  std::vector<std::span<Byte>> spans_;
  std::vector<int64_t> starts_;
  int64_t bytes_ = 0;
};

}  // namespace scalai::executor::transport::internal
