#include "ptc/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <bit>

#include "ptc/base/status.h"

namespace scalai {

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  SCALAI_CHECK(state_->xxh != nullptr);
  XXH3_128bits_reset(state_->xxh);
}
Hasher::~Hasher() = default;

Hasher& Hasher::add(int64_t value) {
  std::array<unsigned char, 8> bytes;
  const auto bits = static_cast<uint64_t>(value);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(bits >> (8 * i));
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  XXH3_128bits_update(state_->xxh, text.data(), text.size());
  return *this;
}

Hasher& Hasher::add_double(double value) { return add(std::bit_cast<int64_t>(value == 0 ? 0.0 : value)); }

std::string Hasher::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_of(std::string_view text) { return Hasher().add(text).hex(); }

}  // namespace scalai
