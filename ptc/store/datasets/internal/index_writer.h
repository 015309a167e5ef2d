#pragma once
// Writes an index file: columns row by row through buffers, the header last, then a rename. Not for several threads.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/file.h"
#include "ptc/store/datasets/internal/index_format.h"

namespace scalai::datasets {

// A column of a file under way, and the checksums of its blocks.
class ColumnWriter {
 public:
  ColumnWriter(TemporaryFile& file, int64_t offset);
  ~ColumnWriter();
  ColumnWriter(ColumnWriter&&) noexcept;
  ColumnWriter& operator=(ColumnWriter&&) = delete;

  absl::Status add(int64_t value);
  absl::Status flush();
  int64_t rows() const { return rows_; }
  absl::StatusOr<int64_t> row(int64_t row);
  // Ends the last block; nothing is added afterwards. The checksums of all.
  absl::StatusOr<std::string> finish();

 private:
  struct Hash;
  void end_block();
  TemporaryFile* file_;
  int64_t begin_;
  int64_t offset_;  // of the next flush
  int64_t rows_ = 0;
  std::string buffer_;
  std::unique_ptr<Hash> hash_;  // of the block under way
  int64_t hashed_ = 0;          // bytes of it
  std::string sums_;
};

class IndexWriter {
 public:
  // `header` has format, files by location (their sizes and edges may come later) and, when the format has two columns,
  // the number of documents.
  static absl::StatusOr<IndexWriter> create(const std::string& out, const IndexHeader& header);

  absl::Status add(int column, int64_t value) { return columns_[static_cast<size_t>(column)].add(value); }
  // A row that was written before.
  absl::StatusOr<int64_t> row(int column, int64_t row);
  // `header` is complete but for the checksums, which it gets here; columns have the rows it says (CHECK).
  absl::Status finish(IndexHeader& header);

 private:
  explicit IndexWriter(TemporaryFile file) : file_(std::make_unique<TemporaryFile>(std::move(file))) {}
  std::unique_ptr<TemporaryFile> file_;  // at a fixed address: the columns write to it
  std::vector<ColumnWriter> columns_;
};

}  // namespace scalai::datasets
