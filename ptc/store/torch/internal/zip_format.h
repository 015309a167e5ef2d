#pragma once
// Numbers of the zip format (PKWARE APPNOTE 6.3) that reader and writer share.

#include <cstdint>

namespace scalai::store::internal {

inline constexpr uint32_t kEntry = 0x04034b50, kListed = 0x02014b50, kEnd = 0x06054b50;
inline constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Place = 0x07064b50;
inline constexpr int64_t kEntryBytes = 30, kEnd64Bytes = 56;
inline constexpr uint32_t kIn64Bits = 0xffffffff;  // instead of a number that does not fit
inline constexpr uint16_t kMoreThan16Bits = 0xffff;
inline constexpr uint16_t kExtra64 = 1;

}  // namespace scalai::store::internal
