#include "ptc/checkpoint/safetensors/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "ptc/base/status.h"

namespace scalai::checkpoint {

struct Checksum::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() = default;
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  SCALAI_CHECK(state_->xxh != nullptr);
  XXH3_128bits_reset(state_->xxh);
}
Checksum::~Checksum() = default;

Checksum& Checksum::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
  return *this;
}

std::string Checksum::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace scalai::checkpoint
