#pragma once
// safetensors files: u64 little-endian N, N bytes of JSON that names the tensors, then their bytes, dense, row-major and
// little-endian (https://github.com/huggingface/safetensors). Reading is by pread, so that a file cut short while it is
// read is an error and never a signal. Values; reading is safe from several threads.
//
// Read strictly: N at most 100,000,000; the JSON begins with "{" and holds nothing twice and no field that the format
// does not have; tensors lie one after the other without a hole or overlap up to the file's last byte; sizes are those of
// dtype and shape. Written as the reference writer does, byte by byte: tensors by dtype in the format's own order
// (U64, I64, F64, F32, …: wide types first, so that all are aligned), then by name, the JSON padded with blanks to a
// multiple of 8. "__metadata__" comes first, its keys sorted (the reference's order of them is random).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/checkpoint/internal/files.h"
#include "ptc/tensor/dtype.h"

namespace scalai::checkpoint {

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

struct StoredTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;  // of any rank; empty: a scalar
  int64_t offset = 0;          // of its first byte in the file
  int64_t bytes = 0;
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by offset: one begins where the one before ends
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;  // 8 + N
  int64_t file_bytes = 0;
};

// The JSON of a file of that size. Errors (InvalidArgument) name the tensor; the caller adds the file.
absl::StatusOr<SafetensorsHeader> parse_safetensors_header(std::string_view json, int64_t file_bytes);

// The header of a file from wherever its bytes come. Errors name the source; InvalidArgument: it is not what the format
// says.
absl::StatusOr<SafetensorsHeader> read_safetensors_header(const ByteSource& source);

struct TensorSpec {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
};

struct EncodedHeader {
  SafetensorsHeader header;
  std::string bytes;  // what the file begins with, up to the first tensor
};

// How a file with these tensors looks, without its data. Refused (InvalidArgument): a name twice or that is not UTF-8 or
// "__metadata__", a negative extent, a size beyond int64, a header beyond the limit.
absl::StatusOr<EncodedHeader> encode_safetensors_header(std::vector<TensorSpec> tensors,
                                                        std::map<std::string, std::string> metadata);

// The bytes of one tensor, all of them (CHECK); they stay valid until the next call.
using TensorSource = std::function<absl::StatusOr<std::span<const std::byte>>(const StoredTensor& tensor)>;

// Writes a file, on disk when this returns, but for the folder's entry. On an error there is no file. Asks for each
// tensor once, in the file's order. Errors: those of encode_safetensors_header and of `source`; ResourceExhausted: the
// disk is full.
absl::Status write_safetensors(const std::string& path, std::vector<TensorSpec> tensors,
                               std::map<std::string, std::string> metadata, const TensorSource& source);

// A file that is open for reading.
class SafetensorsFile {
 public:
  // Errors name the file and, where there is one, the tensor. NotFound: it cannot be opened; InvalidArgument: it is not
  // what the format says.
  static absl::StatusOr<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  // In header().tensors; nullptr: there is none of that name. Valid as long as the file.
  const StoredTensor* find(const std::string& name) const;

  // Bytes [offset, offset + dst.size()) of a tensor; offset and size are inside it (CHECK). An error (InvalidArgument:
  // the file was cut or changed since it was opened, by size or time; Aborted: the read failed) names file and tensor and
  // leaves nothing usable in dst.
  absl::Status read(const StoredTensor& tensor, int64_t offset, std::span<std::byte> dst) const;
  // Raw bytes [0, data_begin), for a checksum of the whole file.
  absl::StatusOr<std::string> raw_header() const;

 private:
  struct Version {
    int64_t bytes = 0;
    int64_t modified_s = 0;
    int64_t modified_ns = 0;
    friend bool operator==(const Version&, const Version&) = default;
  };
  SafetensorsFile() = default;
  static absl::StatusOr<Version> version_of(int fd, const std::string& path);
  absl::Status read_at(int64_t offset, std::span<std::byte> dst) const;

  std::string path_;
  FileDescriptor fd_;
  Version version_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace scalai::checkpoint
