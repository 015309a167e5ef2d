#include "ptc/store/datasets/samples.h"

#include <fmt/format.h>

#include <limits>

#include "ptc/base/status.h"

namespace scalai::datasets {

absl::StatusOr<std::shared_ptr<const Samples>> Samples::make(std::shared_ptr<const Index> index, int64_t sequence) {
  SCALAI_CHECK(index != nullptr);
  if (sequence == 0) return std::shared_ptr<const Samples>(new Samples(index, 0, index->documents()));
  if (index->format() != Format::kMegatron) {
    return invalid(fmt::format("{}: a {} dataset has no tokens to be packed into sequences", index->path(),
                               name_of(index->format())));
  }
  // N + 1 tokens are one sequence of an .idx, whose lengths have 32 bits.
  if (sequence < 0 || sequence >= std::numeric_limits<int32_t>::max()) {
    return invalid(
        fmt::format("a sequence has 1 to {} tokens, not {}", std::numeric_limits<int32_t>::max() - 1, sequence));
  }
  const int64_t count = (index->tokens() - 1) / sequence;
  if (count < 1) {
    return invalid(fmt::format("{}: has {} tokens, and one sample of sequence {} takes {}", index->path(),
                               index->tokens(), sequence, sequence + 1));
  }
  return std::shared_ptr<const Samples>(new Samples(std::move(index), sequence, count));
}

int64_t Samples::tokens_dropped() const { return sequence_ == 0 ? 0 : index_->tokens() - (count_ * sequence_ + 1); }

int64_t Samples::bytes_each() const {
  return sequence_ == 0 ? index_->record_bytes() : (sequence_ + 1) * index_->token_bytes();
}

absl::Status Samples::extents(int64_t i, std::vector<Extent>& extents) const {
  SCALAI_CHECK(i >= 0 && i < count_);
  if (sequence_ == 0) {
    SCALAI_ASSIGN_OR_RETURN(const Extent extent, index_->document(i));
    extents.push_back(extent);
  } else {
    index_->extents_of(i * sequence_ * index_->token_bytes(), bytes_each(), extents);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Samples::bytes(int64_t i) const {
  SCALAI_CHECK(i >= 0 && i < count_);
  if (bytes_each() > 0) return bytes_each();
  SCALAI_ASSIGN_OR_RETURN(const Extent extent, index_->document(i));
  return extent.bytes;
}

absl::StatusOr<int64_t> Samples::tokens(int64_t i) const {
  if (index_->format() != Format::kMegatron) return 0;
  SCALAI_ASSIGN_OR_RETURN(const int64_t size, bytes(i));
  return size / index_->token_bytes();
}

absl::Status Samples::sequence_lengths(int64_t i, std::vector<int32_t>& lengths) const {
  SCALAI_CHECK(i >= 0 && i < count_);
  if (index_->format() != Format::kMegatron) return absl::OkStatus();
  if (sequence_ == 0) return index_->sequence_lengths(i, lengths);
  lengths.push_back(static_cast<int32_t>(sequence_ + 1));
  return absl::OkStatus();
}

std::string Samples::name(int64_t i) const { return fmt::format("{} {}", sequence_ == 0 ? "document" : "window", i); }

}  // namespace scalai::datasets
