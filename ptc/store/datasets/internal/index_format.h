#pragma once
// The file behind Index. All numbers are little-endian, so that rows are used as they lie there:
//
//   "SCALAIDX"                 8 bytes
//   schema version, format     u32, u32
//   header bytes, file bytes   i64, i64   the header ends with its checksum and is a multiple of 8
//   documents, record bytes, dtype code, sequences, tokens, files   6 × i64
//   a file                     i64 bytes, i64 modified_ns, 32 characters of edges digest, u32 length, location
//   a column                   32 characters: checksum of its blocks' checksums
//   zeros up to a multiple of 8; 32 characters: checksum of the header before them
//   the columns                i64 each, one after the other
//   their checksums            16 bytes for each 1 MiB of a column, the last block shorter; column after column
//
// Columns: kMegatron: the first sequence of each document and the end; the tokens before each sequence and the end.
// kTfRecord: where each record begins in all files one after the other, and the end. kTar: where each sample begins and
// ends there. kFixed: none.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/datasets/index.h"

namespace scalai::datasets {

inline constexpr uint32_t kIndexSchemaVersion = 2;
inline constexpr int64_t kFixedHeaderBytes = 32;  // up to and with file bytes
inline constexpr int64_t kMostHeaderBytes = int64_t{1} << 28;
inline constexpr int64_t kMostDataBytes = int64_t{1} << 60;
inline constexpr int64_t kBlockBytes = int64_t{1} << 20;  // of a column, with a checksum
inline constexpr int64_t kBlockSumBytes = 16;
inline constexpr int64_t kMostSumsBytes = int64_t{1} << 28;  // read at opening; 2·10^12 rows

struct IndexHeader {
  Format format = Format::kFixed;
  int64_t documents = 0;
  int64_t record_bytes = 0;
  int dtype_code = 0;
  int64_t sequences = 0;
  int64_t tokens = 0;
  std::vector<DataFile> files;         // locations as stored: relative ones to the folder of the index
  std::vector<std::string> checksums;  // of the checksums of each column's blocks
  friend bool operator==(const IndexHeader&, const IndexHeader&) = default;

  int64_t data_bytes() const;   // of all data files
  int64_t token_bytes() const;  // 0: no such dtype code
  std::string digest() const;
};

// How many columns a format has, and the rows of one.
int columns_of(Format format);
int64_t rows_of(const IndexHeader& header, int column);
// The whole header's size: multiple of 8, known before documents and checksums are.
int64_t header_bytes_of(const IndexHeader& header);
// Of the first row of a column in the file; column = columns_of(format): the end of all.
int64_t column_offset(const IndexHeader& header, int column);
int64_t blocks_of(const IndexHeader& header, int column);
// Of the checksums of a column's blocks; column = columns_of(format): the file's size.
int64_t sums_offset(const IndexHeader& header, int column);

std::string encode_header(const IndexHeader& header);

// Header and file bytes, from the first kFixedHeaderBytes of a file. InvalidArgument: no index, another schema.
struct IndexSizes {
  int64_t header_bytes = 0;
  int64_t file_bytes = 0;
};
absl::StatusOr<IndexSizes> parse_sizes(std::string_view begin);
// All of the header, whose numbers fit each other. InvalidArgument says what does not.
absl::StatusOr<IndexHeader> parse_header(std::string_view bytes);

// XXH3 with 128 bits as 32 hexadecimal digits.
std::string checksum_of(std::string_view bytes);
// The same in kBlockSumBytes bytes, the high half first, each half little-endian: of a block, and of all blocks of a
// column one after the other.
std::string block_sum_of(std::string_view block);
std::string block_sums_of(std::string_view column);

}  // namespace scalai::datasets
