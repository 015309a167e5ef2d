#pragma once
// The table of contents of a zip archive whose entries are stored as they are, which is how torch.save writes: where
// the bytes of each entry lie in the file. Nothing is decompressed. Values; any thread may call.
// Format: PKWARE APPNOTE 6.3 (end of central directory 4.3.16, its 64-bit form 4.3.14, entries 4.3.12 and 4.3.7).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"

namespace scalai::store {

struct ZipEntry {
  std::string name;
  int64_t offset = 0;  // of its first byte in the source
  int64_t bytes = 0;
  uint32_t crc = 0;  // CRC-32 of the bytes; 0: the writer has computed none, but for an empty entry
};

// Whether the source begins as an archive.
absl::StatusOr<bool> is_zip(const ByteSource& source);

// In the order of the table. Errors name the source. InvalidArgument: no archive; an entry that is compressed,
// encrypted, named twice, or not inside the source; entries that overlap; more than 2^20 of them.
absl::StatusOr<std::vector<ZipEntry>> zip_entries(const ByteSource& source);

}  // namespace scalai::store
