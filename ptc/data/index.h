#pragma once
// The index of a dataset: which bytes of which data files are document 0, 1, 2, … It is one immutable file of ours,
// built once by build.h and read where it is asked, so that opening costs the same for 10^8 documents as for ten: nothing
// is done a document. Safe from several threads.
//
// A document is
//   kMegatron   a document of Megatron's .bin, told by its .idx: one or more sequences of tokens
//   kTfRecord   a record with its framing: u64 length, u32 CRC, data, u32 CRC
//   kTar        all members of one WebDataset sample with their headers, one after the other
//   kFixed      a record of fixed size
// always one range of one file. Documents are numbered through all data files in the order given when the index was
// built.
//
// A file of another schema is refused, and so is one that was cut or whose header was altered. The columns behind the
// header are not read through at opening: each 1 MiB of them has a checksum and is checked when it is first touched, and
// what is looked up is held against the files' sizes, so damage there is an error, never another document. We replace an
// index by rename, so an open one stays whole; one that is cut or overwritten in place is an error at the next look-up
// that reads.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::data {

enum class Format : uint8_t { kMegatron = 1, kTfRecord = 2, kTar = 3, kFixed = 4 };

std::string_view name_of(Format format);  // "megatron", "tfrecord", "tar", "fixed"

// Bytes [offset, offset + bytes) of a data file.
struct Extent {
  int file = 0;  // in Index::files()
  int64_t offset = 0;
  int64_t bytes = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

// What was true of a data file when it was indexed; data_files.h refuses it when it is not any more.
struct DataFile {
  std::string location;  // path or http(s) URL; a path is absolute, or relative to where the process runs
  int64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970, of local files; 0: not known
  std::string edges;        // digest of its first and last 64 KiB
  friend bool operator==(const DataFile&, const DataFile&) = default;
};

struct IndexHeader;
class IndexColumns;

class Index {
 public:
  // NotFound: it cannot be opened; InvalidArgument: no index, of another schema, cut or altered. Errors name the file.
  static absl::StatusOr<std::shared_ptr<const Index>> open(const std::string& path);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  const std::string& path() const { return path_; }
  Format format() const;
  // Of what the documents are, not of where the data files lie or when they were written: an index built again over a
  // copy of the files has the same digest.
  const std::string& digest() const { return digest_; }
  const std::vector<DataFile>& files() const;
  int64_t documents() const;
  int64_t bytes() const;  // of all data files

  // Where document i in [0, documents()) (CHECK) lies. InvalidArgument: the index is damaged, or was cut or changed since
  // it was opened; Aborted: it cannot be read.
  absl::StatusOr<Extent> document(int64_t i) const;
  // Bytes [begin, begin + bytes) of all data files one after the other, cut where files meet, appended to `extents`.
  // They lie inside (CHECK).
  void extents_of(int64_t begin, int64_t bytes, std::vector<Extent>& extents) const;

  // kFixed: bytes of a record. Others: 0.
  int64_t record_bytes() const;

  // kMegatron; for others all are 0 and there are no sequences.
  int dtype_code() const;  // of Megatron's .idx: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 6 f64, 7 f32, 8 uint16
  int64_t token_bytes() const;  // of that dtype
  int64_t tokens() const;       // of all documents
  int64_t sequences() const;    // of all documents
  // Tokens of each sequence of document i (CHECK), in order, appended to `lengths`. Errors as of document().
  absl::Status sequence_lengths(int64_t i, std::vector<int32_t>& lengths) const;

  // Reads the whole index and checks it: checksums of all blocks, and that the documents lie in order inside the
  // files. InvalidArgument names the first document that is wrong.
  absl::Status verify() const;

 private:
  struct Pair {
    int64_t begin = 0;
    int64_t end = 0;
  };
  Index();
  absl::StatusOr<int64_t> row(int column, int64_t row) const;
  absl::StatusOr<Pair> rows(int column, int64_t row) const;  // this one and the next
  absl::StatusOr<Pair> sequences_of(int64_t i) const;
  absl::StatusOr<Pair> place_of(int64_t i) const;
  absl::StatusOr<Extent> within_file(int64_t i, int64_t begin, int64_t end) const;
  absl::Status verify_sequences() const;
  absl::Status verify_order() const;
  absl::Status damaged(int64_t i) const;

  std::string path_;
  std::string digest_;
  std::unique_ptr<const IndexHeader> header_;
  std::vector<int64_t> file_begins_;  // of each data file in all of them one after the other, and the end
  std::unique_ptr<const IndexColumns> columns_;
};

}  // namespace scalai::data
