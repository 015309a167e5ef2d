#pragma once
// CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected; RFC 3720 appendix B.4 has vectors), and its masked form in
// TFRecord files. Uses the processor's instruction where there is one. Pure functions.

#include <cstddef>
#include <cstdint>
#include <span>

namespace scalai::datasets {

// CRC of `bytes`; `crc` is the CRC of the bytes before them (0: nothing before).
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);
// The same with tables, on any processor; for tests.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc = 0);

// The masked form of TFRecord: rotated right by 15, plus 0xA282EAD8.
inline uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

}  // namespace scalai::datasets
