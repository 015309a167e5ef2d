#pragma once
// Writes an index file: columns row by row through buffers, the header last, then a rename. Not for several threads.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/data/internal/index_format.h"

namespace scalai::data {

// A new file of a name that no other process uses; removed when the object goes, unless it was moved into place.
class TemporaryFile {
 public:
  // Named `path`.tmp.PID. NotFound: it cannot be created.
  static absl::StatusOr<TemporaryFile> create(const std::string& path);
  ~TemporaryFile();
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;

  int descriptor() const { return fd_; }
  const std::string& path() const { return path_; }
  // Bytes at an offset. ResourceExhausted: the disk is full; Aborted: it cannot be written.
  absl::Status write(int64_t offset, std::string_view bytes);
  absl::StatusOr<int64_t> read_number(int64_t offset) const;
  // Renames it to `path` once it is on disk, and makes the folder's entry durable.
  absl::Status publish(const std::string& path);

 private:
  TemporaryFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status write_error(const std::string& what, int error) const;
  std::string path_;
  int fd_ = -1;
};

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
  IndexWriter(std::string out, TemporaryFile file)
      : out_(std::move(out)), file_(std::make_unique<TemporaryFile>(std::move(file))) {}
  std::string out_;
  std::unique_ptr<TemporaryFile> file_;  // at a fixed address: the columns write to it
  std::vector<ColumnWriter> columns_;
};

}  // namespace scalai::data
