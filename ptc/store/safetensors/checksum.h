#pragma once
// Checksums of bytes: XXH3 with 128 bits, as `xxhsum -H2` prints it, or the CRC-32 of zip archives. Not cryptographic.
// One thread at a time for each object.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace scalai::store {

enum class ChecksumKind : uint8_t { kXxh3, kCrc32 };
// Of what Checksum::hex() has given: the two have different lengths.
ChecksumKind kind_of_checksum(std::string_view hex);

class Checksum {
 public:
  explicit Checksum(ChecksumKind kind = ChecksumKind::kXxh3);
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  // Appends bytes; they are not kept.
  Checksum& add(std::span<const std::byte> bytes);
  std::string hex() const;  // of all bytes so far: 32 lower-case hexadecimal digits; of kCrc32 8

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The bytes of `text`, as a view that lives as long as they do.
std::span<const std::byte> bytes_of(std::string_view text);

}  // namespace scalai::store
