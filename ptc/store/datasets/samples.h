#pragma once
// The samples of a dataset: documents of the index, or with sequence = N packed windows of N + 1 tokens. Window i is
// tokens [i·N, i·N + N + 1) of the concatenation of all documents in index order (Megatron's rule: neighbours share one
// token, token N + 1 is the label of token N). Tokens after the last whole window are dropped, see tokens_dropped().
// Look-ups take O(log files) and allocate no tables. Shares ownership of the index. Immutable; any thread may call,
// several at once.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/store/datasets/index.h"

namespace scalai::datasets {

class Samples {
 public:
  // sequence = 0: documents. InvalidArgument: windows over a format without tokens, a sequence below 0 or of 2^31 − 1
  // or more, or no window at all. CHECK: the index is not null.
  static absl::StatusOr<std::shared_ptr<const Samples>> make(std::shared_ptr<const Index> index, int64_t sequence = 0);

  const Index& index() const { return *index_; }
  int64_t sequence() const { return sequence_; }
  int64_t count() const { return count_; }
  // Tokens after the last window, in no sample; 0 for documents.
  int64_t tokens_dropped() const;

  // CHECK in extents, bytes and sequence_lengths: i in [0, count()). InvalidArgument: the index is damaged. Aborted: it
  // cannot be read.
  // Appends the place of sample i to `extents`, in order: one extent for a document, even an empty one; one for each
  // file of a window.
  absl::Status extents(int64_t i, std::vector<Extent>& extents) const;
  absl::StatusOr<int64_t> bytes(int64_t i) const;   // with framing (TFRecord) and headers (tar)
  absl::StatusOr<int64_t> tokens(int64_t i) const;  // Megatron; 0 for others
  // Appends to `lengths` the tokens of each sequence of sample i: all sequences of a document, N + 1 for a window.
  // Nothing for formats without tokens.
  absl::Status sequence_lengths(int64_t i, std::vector<int32_t>& lengths) const;
  // Bytes of a sample if all have the same size (windows, fixed records), else 0.
  int64_t bytes_each() const;
  // For messages: "document 17", "window 17".
  std::string name(int64_t i) const;

 private:
  Samples(std::shared_ptr<const Index> index, int64_t sequence, int64_t count)
      : index_(std::move(index)), sequence_(sequence), count_(count) {}
  std::shared_ptr<const Index> index_;
  int64_t sequence_ = 0;
  int64_t count_ = 0;
};

}  // namespace scalai::datasets
