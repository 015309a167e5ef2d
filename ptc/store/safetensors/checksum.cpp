#include "ptc/store/safetensors/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>

#include "ptc/base/status.h"

namespace scalai::store {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr size_t kSlices = 8;
constexpr size_t kCrcDigits = 8;

// Entry [k][b] is the CRC of byte b with k zero bytes behind it.
using CrcTables = std::array<std::array<uint32_t, 256>, kSlices>;
constexpr CrcTables crc_tables() {
  constexpr uint32_t kPolynomial = 0xEDB88320;  // of zip, its bits reversed
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < kSlices; ++k) {
    for (size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  }
  return tables;
}
constexpr CrcTables kCrc = crc_tables();

// Eight bytes at a time ("slicing by 8", Kounavis and Berry, IEEE Transactions on Computers 57, 2008).
uint32_t crc32_after(uint32_t crc, std::span<const std::byte> bytes) {
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, at += kSlices) {
    std::array<uint32_t, 2> words{};
    std::memcpy(words.data(), at, sizeof words);
    const uint32_t low = words[0] ^ crc, high = words[1];
    crc = kCrc[7][low & 0xff] ^ kCrc[6][low >> 8 & 0xff] ^ kCrc[5][low >> 16 & 0xff] ^ kCrc[4][low >> 24] ^
          kCrc[3][high & 0xff] ^ kCrc[2][high >> 8 & 0xff] ^ kCrc[1][high >> 16 & 0xff] ^ kCrc[0][high >> 24];
  }
  for (; left > 0; --left, ++at) crc = (crc >> 8) ^ kCrc[0][(crc ^ std::to_integer<uint32_t>(*at)) & 0xff];
  return crc;
}

}  // namespace

ChecksumKind kind_of_checksum(std::string_view hex) {
  return hex.size() == kCrcDigits ? ChecksumKind::kCrc32 : ChecksumKind::kXxh3;
}

struct Checksum::State {
  explicit State(ChecksumKind of) : kind(of), xxh(of == ChecksumKind::kXxh3 ? XXH3_createState() : nullptr) {}
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  const ChecksumKind kind;
  XXH3_state_t* const xxh;  // nullptr: `crc` counts
  uint32_t crc = 0xffffffff;
};

Checksum::Checksum(ChecksumKind kind) : state_(std::make_unique<State>(kind)) {
  SCALAI_CHECK(kind == ChecksumKind::kCrc32 || state_->xxh != nullptr);
  if (state_->xxh != nullptr) XXH3_128bits_reset(state_->xxh);
}
Checksum::~Checksum() = default;

Checksum& Checksum::add(std::span<const std::byte> bytes) {
  if (state_->xxh != nullptr) {
    XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
  } else {
    state_->crc = crc32_after(state_->crc, bytes);
  }
  return *this;
}

std::string Checksum::hex() const {
  if (state_->xxh == nullptr) return fmt::format("{:08x}", ~state_->crc);
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace scalai::store
