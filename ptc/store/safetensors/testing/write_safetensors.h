#pragma once
// Safetensors files for tests.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/safetensors/safetensors.h"

namespace scalai::store {

// Gives all bytes of one tensor (CHECK: their number). They must stay valid until the next call.
using TensorSource = std::function<absl::StatusOr<std::span<const std::byte>>(const StoredTensor& tensor)>;

// Writes a file; its content is on disk when this returns OK, its folder entry needs sync_folder. After an error there
// is no file. Calls `source` once for each tensor, in the file's order, on this thread. Errors: those of
// encode_safetensors_header and of `source`; ResourceExhausted: the disk is full.
inline absl::Status write_safetensors(const std::string& path, std::vector<TensorSpec> tensors,
                                      std::map<std::string, std::string> metadata, const TensorSource& source) {
  const absl::StatusOr<EncodedHeader> encoded = encode_safetensors_header(std::move(tensors), std::move(metadata));
  if (!encoded.ok()) return encoded.status();
  SCALAI_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, encoded->header.file_bytes));
  SCALAI_RETURN_IF_ERROR(file.append(bytes_of(encoded->bytes)));
  for (const StoredTensor& stored : encoded->header.tensors) {
    SCALAI_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, source(stored));
    SCALAI_CHECK(static_cast<int64_t>(bytes.size()) == stored.bytes, stored.name);
    SCALAI_RETURN_IF_ERROR(file.append(bytes));
  }
  return file.finish();
}

}  // namespace scalai::store
