#include "ptc/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <boost/crc.hpp>

#include "ptc/base/status.h"

namespace scalai {

// Values are short: they are gathered before the library sees them.
struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  std::array<unsigned char, 4096> gathered;
  size_t size = 0;
  ~State() { XXH3_freeState(xxh); }
  void flush() {
    XXH3_128bits_update(xxh, gathered.data(), size);
    size = 0;
  }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  SCALAI_CHECK(state_->xxh != nullptr);
  XXH3_128bits_reset(state_->xxh);
}
Hasher::~Hasher() = default;

Hasher& Hasher::add(int64_t value) {
  if (state_->size + 8 > state_->gathered.size()) state_->flush();
  const auto bits = static_cast<uint64_t>(value);
  for (size_t i = 0; i < 8; ++i) state_->gathered[state_->size++] = static_cast<unsigned char>(bits >> (8 * i));
  return *this;
}

Hasher& Hasher::add(std::string_view text) {
  add(static_cast<int64_t>(text.size()));
  state_->flush();
  XXH3_128bits_update(state_->xxh, text.data(), text.size());
  return *this;
}

Hasher& Hasher::add_double(double value) { return add(std::bit_cast<int64_t>(value == 0 ? 0.0 : value)); }

std::string Hasher::hex() const {
  state_->flush();
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_of(std::string_view text) { return Hasher().add(text).hex(); }

uint32_t crc32_of(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace scalai
