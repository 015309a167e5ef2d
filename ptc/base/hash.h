#pragma once
// Digests. A Hasher takes values in our own canonical little-endian encoding (never protobuf bytes) and yields the
// 128-bit XXH3 digest: same input, same digest, on any machine. Not cryptographic.

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
  // A short literal would otherwise prefer the conversion to bool or int.
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  Hasher& add_double(double value);  // IEEE bits; -0 counts as 0
  std::string hex() const;           // 32 lower-case hexadecimal digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Digest of a whole text.
std::string digest_of(std::string_view text);

}  // namespace scalai
