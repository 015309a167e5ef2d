#pragma once
// The index of a dataset: the place of document 0, 1, 2, … in the data files. It is one immutable file, built once by
// build.h and read on demand, so opening 10^8 documents takes the same time as opening ten. An Index owns the open
// index file, not the data files. Any thread may call; several may call at once.
//
// A document is always one range of one file:
//   kMegatron   a document of Megatron's .bin, found by its .idx: one or more sequences of tokens
//   kTfRecord   a record with its framing: u64 length, u32 CRC, data, u32 CRC
//   kTar        all members of one WebDataset sample with their headers, one after the other
//   kFixed      a record of fixed size
// Documents are numbered through all data files, in the order of the files at the build.
//
// Opening refuses an index of another schema, a truncated index, and an index with a changed header. It does not read
// the columns after the header. Each 1 MiB of them has a checksum that is compared on first use, and each place is
// compared with the sizes of the files, so damage is an error and never another document. build_index replaces an index
// by rename, so an open one stays complete. Truncation or overwriting in place is an error of the next read.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::datasets {

enum class Format : uint8_t { kMegatron = 1, kTfRecord = 2, kTar = 3, kFixed = 4 };

std::string_view name_of(Format format);  // "megatron", "tfrecord", "tar", "fixed"; static storage

// Bytes [offset, offset + bytes) of a data file.
struct Extent {
  int file = 0;  // in Index::files()
  int64_t offset = 0;
  int64_t bytes = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

// A data file at the time of the build; data_files.h refuses a file that has changed since.
struct DataFile {
  std::string location;  // path or http(s) URL; a path is absolute, or relative to the working directory
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970, of local files; 0: unknown
  std::string edges;        // digest of its first and last 64 KiB
  friend bool operator==(const DataFile&, const DataFile&) = default;
};

struct IndexHeader;
class IndexColumns;

class Index {
 public:
  // Opens the index at `path`. NotFound: the file cannot be opened. InvalidArgument: it is no index, has another
  // schema, or was truncated or changed. Errors name the file.
  static absl::StatusOr<std::shared_ptr<const Index>> open(const std::string& path);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  // All references below live as long as the index.
  const std::string& path() const { return path_; }
  Format format() const;
  // Digest of the documents' content, independent of the place and modification time of the data files: a new index of
  // a copy of the files has the same digest.
  const std::string& digest() const { return digest_; }
  const std::vector<DataFile>& files() const;
  int64_t documents() const;
  int64_t bytes() const;  // of all data files

  // Place of document i. CHECK: i in [0, documents()). InvalidArgument: the index is damaged, or was truncated or
  // changed since it was opened. Aborted: it cannot be read.
  absl::StatusOr<Extent> document(int64_t i) const;
  // Appends to `extents` the bytes [begin, begin + bytes) of the concatenation of all data files, cut at file
  // boundaries. CHECK: the range lies inside.
  void extents_of(int64_t begin, int64_t bytes, std::vector<Extent>& extents) const;

  // kFixed: bytes of a record. Others: 0.
  int64_t record_bytes() const;

  // kMegatron. For other formats these numbers are 0 and there are no sequences.
  int dtype_code() const;  // of Megatron's .idx: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 6 f64, 7 f32, 8 uint16
  int64_t token_bytes() const;  // of that dtype
  int64_t tokens() const;       // of all documents
  int64_t sequences() const;    // of all documents
  // Appends to `lengths` the tokens of each sequence of document i, in order. CHECK and errors as of document().
  absl::Status sequence_lengths(int64_t i, std::vector<int32_t>& lengths) const;

  // Reads and checks the whole index: checksums of all blocks, and order and place of all documents. InvalidArgument
  // names the first wrong document. Aborted: it cannot be read.
  absl::Status verify() const;

 private:
  struct Pair {
    int64_t begin = 0;
    int64_t end = 0;
  };
  Index();
  absl::StatusOr<int64_t> row(int column, int64_t row) const;
  absl::StatusOr<Pair> rows(int column, int64_t row) const;  // the values of `row` and of the next row
  absl::StatusOr<Pair> sequences_of(int64_t i) const;
  absl::StatusOr<Pair> place_of(int64_t i) const;
  absl::StatusOr<Extent> within_file(int64_t i, int64_t begin, int64_t end) const;
  absl::Status verify_sequences() const;
  absl::Status verify_order() const;
  absl::Status damaged(int64_t i) const;

  std::string path_;
  std::string digest_;
  std::unique_ptr<const IndexHeader> header_;
  std::vector<int64_t> file_begins_;  // begin of each data file in their concatenation, then the end of all
  std::unique_ptr<const IndexColumns> columns_;
};

}  // namespace scalai::datasets
