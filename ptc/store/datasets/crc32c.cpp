#include "ptc/store/datasets/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace scalai::datasets {
namespace {

constexpr uint32_t kReflected = 0x82F63B78u;

// tables[k][b]: CRC of byte b with k zero bytes behind it, so that eight bytes are looked up at once.
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables = {};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflected : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) tables[k][b] = (tables[k - 1][b] >> 8) ^ tables[0][tables[k - 1][b] & 255];
  }
  return tables;
}

constexpr auto kTables = make_tables();

uint64_t load64(const std::byte* at) {
  uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(std::span<const std::byte> bytes, uint32_t crc) {
  uint64_t state = ~crc;
  while (bytes.size() >= 8) {
    state = _mm_crc32_u64(state, load64(bytes.data()));
    bytes = bytes.subspan(8);
  }
  auto rest = static_cast<uint32_t>(state);
  for (const std::byte b : bytes) rest = _mm_crc32_u8(rest, static_cast<uint8_t>(b));
  return ~rest;
}
#endif

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t crc) {
  uint32_t state = ~crc;
  while (bytes.size() >= 8) {
    const uint64_t word = load64(bytes.data()) ^ state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kTables[7 - k][(word >> (8 * k)) & 255];
    bytes = bytes.subspan(8);
  }
  for (const std::byte b : bytes) state = (state >> 8) ^ kTables[0][(state ^ static_cast<uint32_t>(b)) & 255];
  return ~state;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return crc32c_sse42(bytes, crc);
#endif
  return crc32c_portable(bytes, crc);
}

}  // namespace scalai::datasets
