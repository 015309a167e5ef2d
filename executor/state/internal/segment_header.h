#pragma once
// The first page of a segment, as owner and readers see it.

#include <atomic>
#include <cstdint>

namespace scalai::executor::state::internal {

struct SegmentHeader {
  static constexpr uint64_t kMagic = 0x53434c4149534731;  // "SCLAISG1"
  static constexpr uint32_t kSchemaVersion = 1;
  uint64_t magic = kMagic;
  uint32_t schema_version = kSchemaVersion;
  uint32_t header_bytes = sizeof(SegmentHeader);
  uint64_t capacity = 0;
  uint64_t token = 0;
  std::atomic<uint64_t> epoch{2};  // odd while bytes are rewritten
  // Sequence lock: odd while the directory changes.
  std::atomic<uint64_t> sequence{0};
  std::atomic<uint64_t> directory_offset{0};
  std::atomic<uint64_t> directory_bytes{0};
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "the words are shared between processes");

}  // namespace scalai::executor::state::internal
