#pragma once
// Little-endian numbers in files, and the frame of a TFRecord.

#include <cstdint>
#include <cstring>
#include <span>

namespace scalai::datasets {

// Bytes around the data of a TFRecord: its length (8) with a checksum (4) before, a checksum (4) behind.
constexpr int64_t kTfRecordHead = 12, kTfRecordTail = 4;

// The number at byte `at`; the bytes reach that far.
template <class T>
T number_in(std::span<const std::byte> bytes, size_t at = 0) {
  T value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace scalai::datasets
