#include "ptc/base/status.h"
#include "ptc/store/datasets/index.h"
#include "ptc/store/datasets/internal/index_columns.h"

namespace scalai::datasets {

// What holds for each document beside lying inside a file: where it may begin and how long it may be.
absl::Status Index::verify_order() const {
  const bool dense = format() != Format::kTar;
  int64_t behind = 0;  // in all files one after the other
  for (int64_t i = 0; i < documents(); ++i) {
    SCALAI_ASSIGN_OR_RETURN(const Extent extent, document(i));
    const int64_t begin = file_begins_[static_cast<size_t>(extent.file)] + extent.offset;
    if (dense ? begin != behind : begin < behind) return damaged(i);
    if (format() == Format::kTfRecord && extent.bytes < 16) return damaged(i);
    if (format() == Format::kTar && (extent.bytes < 512 || extent.bytes % 512 != 0 || extent.offset % 512 != 0)) {
      return damaged(i);
    }
    behind = begin + extent.bytes;
  }
  return dense && behind != bytes() ? damaged(documents() - 1) : absl::OkStatus();
}

absl::Status Index::verify_sequences() const {
  SCALAI_ASSIGN_OR_RETURN(const int64_t first_sequence, row(0, 0));
  SCALAI_ASSIGN_OR_RETURN(const int64_t end_of_sequences, row(0, documents()));
  SCALAI_ASSIGN_OR_RETURN(const int64_t first_token, row(1, 0));
  SCALAI_ASSIGN_OR_RETURN(const int64_t end_of_tokens, row(1, sequences()));
  if (first_sequence != 0 || end_of_sequences != sequences()) return damaged(0);
  if (first_token != 0 || end_of_tokens != tokens()) return damaged(0);
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < documents(); ++i) {
    lengths.clear();
    SCALAI_RETURN_IF_ERROR(sequence_lengths(i, lengths));
  }
  return absl::OkStatus();
}

absl::Status Index::verify() const {
  SCALAI_RETURN_IF_ERROR(columns_->check_all());
  if (format() == Format::kMegatron) SCALAI_RETURN_IF_ERROR(verify_sequences());
  return verify_order();
}

}  // namespace scalai::datasets
