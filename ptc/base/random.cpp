#include "ptc/base/random.h"

#include <bit>

#include "ptc/base/status.h"

namespace scalai {
namespace {

uint64_t uniform_below(Random& random, uint64_t n) {
  uint64_t bits = random.next();
  if (bits < ~uint64_t{0} - n) return bits % n;                // below the limit, whatever it is: a division less
  const uint64_t limit = (~uint64_t{0}) - (~uint64_t{0}) % n;  // reject the biased tail
  while (bits >= limit) bits = random.next();
  return bits % n;
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) {
    seed += 0x9E3779B97F4A7C15ull;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    word = z ^ (z >> 31);
  }
}

uint64_t Random::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

int64_t Random::below(int64_t bound) {
  SCALAI_CHECK(bound > 0);
  return static_cast<int64_t>(uniform_below(*this, static_cast<uint64_t>(bound)));
}

int64_t Random::between(int64_t lo, int64_t hi) {
  SCALAI_CHECK(lo <= hi);
  const uint64_t span = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo);  // wraps where int64_t would overflow
  const uint64_t offset = span == ~uint64_t{0} ? next() : uniform_below(*this, span + 1);
  return static_cast<int64_t>(static_cast<uint64_t>(lo) + offset);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

}  // namespace scalai
