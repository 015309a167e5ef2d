#pragma once
// What training calls a sample: a document of the index, or with sequence = N a packed window of N + 1 tokens. Window i
// is tokens [i·N, i·N + N + 1) of all documents one after the other in index order (Megatron's way: neighbours share a
// token, the N + 1st is the label of the Nth). What is left at the end and is no whole window is dropped, see
// tokens_dropped(). Everything is O(log files) and without memory of its own. Immutable; safe from several threads.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/data/index.h"

namespace scalai::data {

class Samples {
 public:
  // sequence = 0: documents. InvalidArgument: windows over anything but Megatron's tokens, a negative sequence, or no
  // sample at all.
  static absl::StatusOr<std::shared_ptr<const Samples>> make(std::shared_ptr<const Index> index, int64_t sequence = 0);

  const Index& index() const { return *index_; }
  int64_t sequence() const { return sequence_; }
  int64_t count() const { return count_; }
  // Tokens after the last window that are in no sample; 0 for documents.
  int64_t tokens_dropped() const;

  // i in [0, count()) (CHECK) in all of these. InvalidArgument: the index is damaged.
  // Where sample i lies, in order, appended to `extents`: one extent for a document (also for an empty one), one a file
  // for a window.
  absl::Status extents(int64_t i, std::vector<Extent>& extents) const;
  absl::StatusOr<int64_t> bytes(int64_t i) const;   // with framing (TFRecord) and headers (tar)
  absl::StatusOr<int64_t> tokens(int64_t i) const;  // Megatron; 0 for others
  // Tokens of each sequence of sample i, appended: of a document its sequences, of a window N + 1. Nothing for formats
  // without tokens.
  absl::Status sequence_lengths(int64_t i, std::vector<int32_t>& lengths) const;
  // Bytes of every sample when they are all alike (windows, fixed records); 0 when each has its own.
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

}  // namespace scalai::data
