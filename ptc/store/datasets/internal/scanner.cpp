#include "ptc/store/datasets/internal/scanner.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::datasets {

Scanner::Scanner(ByteSourcePtr source, int64_t begin, int64_t end, int64_t buffer_bytes)
    : source_(std::move(source)), position_(begin), end_(end < 0 ? source_->size() : end), buffer_bytes_(buffer_bytes) {
  SCALAI_CHECK(begin >= 0 && begin <= end_ && end_ <= source_->size() && buffer_bytes_ > 0);
}

absl::StatusOr<std::span<const std::byte>> Scanner::take(int64_t n) {
  SCALAI_CHECK(n >= 0 && n <= most() && n <= remaining());
  if (position_ < buffer_begin_ || position_ + n > buffer_end_) {
    if (on_read_) on_read_(position_);
    const int64_t bytes = std::min(buffer_bytes_, remaining());
    if (static_cast<int64_t>(buffer_.size()) < bytes) buffer_.resize(static_cast<size_t>(bytes));
    buffer_begin_ = buffer_end_ = position_;
    SCALAI_RETURN_IF_ERROR(source_->read(position_, std::span(buffer_).first(static_cast<size_t>(bytes))));
    buffer_end_ = position_ + bytes;
  }
  const auto at = static_cast<size_t>(position_ - buffer_begin_);
  position_ += n;
  return std::span<const std::byte>(buffer_).subspan(at, static_cast<size_t>(n));
}

void Scanner::skip(int64_t n) {
  SCALAI_CHECK(n >= 0 && n <= remaining());
  position_ += n;
}

}  // namespace scalai::datasets
