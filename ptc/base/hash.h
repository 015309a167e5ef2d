#pragma once
// Digests. A Hasher encodes values in a canonical little-endian form (never protobuf bytes) and computes their 128-bit
// XXH3 digest: equal input gives equal digests on any machine. Not cryptographic. One thread at a time, hex() included.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace scalai {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& add(int64_t value);          // 8 bytes, little endian
  Hasher& add(std::string_view text);  // length, then bytes
  // Without this overload a literal would convert to bool or int.
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  Hasher& add_double(double value);  // IEEE bits; -0 counts as 0
  // Digest of everything so far, as 32 lower-case hexadecimal digits; more values may follow.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Hasher().add(text).hex(), so the length of the text is part of the input.
std::string digest_of(std::string_view text);

// The checksum of zip and gzip (polynomial 0x04C11DB7, reflected; RFC 1952, section 8).
uint32_t crc32_of(std::string_view bytes);

}  // namespace scalai
