#include "ptc/store/datasets/views/internal/gather.h"

#include <cstring>

#include "ptc/base/status.h"

namespace scalai::datasets::internal {

absl::Status Gather::add(const Extent& piece, int64_t sample) {
  SCALAI_CHECK(piece.bytes <= static_cast<int64_t>(dst_.size()) - added_);
  if (piece.bytes == 0) return absl::OkStatus();
  const int64_t run_end = run_.offset + run_.bytes;
  const bool joins = !pieces_.empty() && piece.file == run_.file && piece.offset >= pieces_.back().offset &&
                     piece.offset <= run_end && piece.offset + piece.bytes >= run_end;
  if (!joins) {
    SCALAI_RETURN_IF_ERROR(flush());
    run_ = piece;
    pieces_ = {piece};
    dst_begin_ = added_;
    first_sample_ = sample;
  } else {
    run_.bytes = piece.offset + piece.bytes - run_.offset;
    if (piece.offset == run_end) {
      pieces_.back().bytes += piece.bytes;
    } else {
      pieces_.push_back(piece);
    }
  }
  last_sample_ = sample;
  added_ += piece.bytes;
  return absl::OkStatus();
}

absl::Status Gather::finish() {
  SCALAI_CHECK(added_ == static_cast<int64_t>(dst_.size()));
  return flush();
}

// The bytes of the run are read to the end of their place in the buffer. From there each piece moves to the front or
// stays: what piece i skips, the sum of all later overlaps, is never negative, so moving in order overwrites no source.
absl::Status Gather::flush() {
  if (pieces_.empty()) return absl::OkStatus();
  if (source_file_ != run_.file) {
    SCALAI_ASSIGN_OR_RETURN(source_, files_.source(run_.file));
    source_file_ = run_.file;
  }
  std::byte* const begin = dst_.data() + dst_begin_;
  std::byte* const read_at = dst_.data() + (added_ - run_.bytes);
  SCALAI_RETURN_IF_ERROR(source_->read(run_.offset, {read_at, static_cast<size_t>(run_.bytes)}));
  std::byte* to = begin;
  for (const Extent& piece : pieces_) {
    const std::byte* const from = read_at + (piece.offset - run_.offset);
    if (to != from) std::memmove(to, from, static_cast<size_t>(piece.bytes));
    to += piece.bytes;
  }
  pieces_.clear();
  return absl::OkStatus();
}

}  // namespace scalai::datasets::internal
