#pragma once
// safetensors files: u64 little-endian N, N bytes of JSON that names the tensors, then their bytes, dense, row-major
// and little-endian (https://github.com/huggingface/safetensors). Reading uses pread, so a truncated file is an error
// and never a signal. Values; any thread may read, several at once.
//
// Reading is strict: N is at most 100,000,000; the JSON begins with "{" and has no repeated and no unknown fields;
// tensors lie one after the other without holes or overlaps up to the last byte of the file; sizes follow from dtype
// and shape. Writing gives the bytes of the reference writer: tensors sorted by dtype in the format's own order (U64,
// I64, F64, F32, …: wide types first, so that all are aligned), then by name; the JSON is padded with blanks to a
// multiple of 8. "__metadata__" comes first with sorted keys (their order in the reference is random).

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"
#include "ptc/state/tensor/dtype.h"
#include "ptc/store/safetensors/files.h"

namespace scalai::store {

inline constexpr int64_t kMaxHeaderBytes = 100'000'000;

struct StoredTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;  // of any rank; empty: a scalar
  int64_t offset = 0;          // first byte in the file
  int64_t bytes = 0;
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by offset; each begins at the end of the one before
  std::map<std::string, std::string> metadata;
  int64_t data_begin = 0;  // 8 + N
  int64_t file_bytes = 0;
};

// Parses the JSON of a file of `file_bytes`. Errors (InvalidArgument) name the tensor; the caller adds the file.
absl::StatusOr<SafetensorsHeader> parse_safetensors_header(std::string_view json, int64_t file_bytes);

// Reads the header from any source of bytes. Errors name the source. InvalidArgument: not a valid safetensors file.
absl::StatusOr<SafetensorsHeader> read_safetensors_header(const ByteSource& source);

struct TensorSpec {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
};

struct EncodedHeader {
  SafetensorsHeader header;
  std::string bytes;  // the first bytes of the file, up to the first tensor
};

// The header of a file with these tensors. InvalidArgument: a name that is repeated, not UTF-8 or "__metadata__"; a
// negative extent; a size beyond int64; a header beyond the limit.
absl::StatusOr<EncodedHeader> encode_safetensors_header(std::vector<TensorSpec> tensors,
                                                        std::map<std::string, std::string> metadata);

// A file that is open for reading. Const methods may be called by several threads at once.
class SafetensorsFile {
 public:
  // Errors name the file and, if known, the tensor. NotFound: it cannot be opened. InvalidArgument: it is not a valid
  // safetensors file.
  static absl::StatusOr<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  // The tensor of this name in header().tensors; nullptr: none. Valid as long as the file object.
  const StoredTensor* find(const std::string& name) const;

  // Reads bytes [offset, offset + dst.size()) of a tensor. CHECK: they lie inside it. InvalidArgument: the file was
  // truncated or changed since it was opened (open_file_source). Aborted: the read failed. Errors name file and tensor;
  // the content of dst is then undefined.
  absl::Status read(const StoredTensor& tensor, int64_t offset, std::span<std::byte> dst) const;
  // Raw bytes [0, data_begin), for a checksum of the whole file.
  absl::StatusOr<std::string> raw_header() const;

 private:
  SafetensorsFile() = default;

  std::string path_;
  ByteSourcePtr source_;
  SafetensorsHeader header_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace scalai::store
