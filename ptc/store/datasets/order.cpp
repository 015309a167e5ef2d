#include "ptc/store/datasets/order.h"

#include <array>

#include "ptc/base/status.h"

namespace scalai::datasets {
namespace {

constexpr int kRounds = 8;
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

class Network {
 public:
  Network(int64_t samples, uint64_t seed, int64_t pass) {
    const auto n = static_cast<uint64_t>(samples);
    while ((uint64_t{1} << (2 * half_)) < n) ++half_;
    mask_ = (uint64_t{1} << half_) - 1;
    const uint64_t key = mix(mix(mix(seed + kGolden) + static_cast<uint64_t>(pass) + kGolden) + n + kGolden);
    for (uint64_t r = 0; r < kRounds; ++r) keys_[r] = mix(key + (r + 1) * kGolden);
  }
  uint64_t forward(uint64_t x) const {
    uint64_t left = x >> half_, right = x & mask_;
    for (const uint64_t key : keys_) {
      const uint64_t next = left ^ (mix(right ^ key) >> (64 - half_));
      left = right;
      right = next;
    }
    return (left << half_) | right;
  }
  uint64_t backward(uint64_t x) const {
    uint64_t left = x >> half_, right = x & mask_;
    for (size_t r = keys_.size(); r-- > 0;) {
      const uint64_t before = right ^ (mix(left ^ keys_[r]) >> (64 - half_));
      right = left;
      left = before;
    }
    return (left << half_) | right;
  }

 private:
  int half_ = 3;  // 2 would favour some orders of 3 to 16 samples by up to a tenth
  uint64_t mask_ = 0;
  std::array<uint64_t, kRounds> keys_ = {};
};

}  // namespace

void Order::check() const { SCALAI_CHECK(samples_ > 0 && samples_ <= int64_t{1} << 52); }

int64_t Order::at(int64_t pass, int64_t position) const {
  SCALAI_CHECK(pass >= 0 && position >= 0 && position < samples_);
  if (!shuffle_) return position;
  const Network network(samples_, seed_, pass);
  auto x = static_cast<uint64_t>(position);
  do {
    x = network.forward(x);
  } while (x >= static_cast<uint64_t>(samples_));
  return static_cast<int64_t>(x);
}

int64_t Order::position_of(int64_t pass, int64_t sample) const {
  SCALAI_CHECK(pass >= 0 && sample >= 0 && sample < samples_);
  if (!shuffle_) return sample;
  const Network network(samples_, seed_, pass);
  auto x = static_cast<uint64_t>(sample);
  do {
    x = network.backward(x);
  } while (x >= static_cast<uint64_t>(samples_));
  return static_cast<int64_t>(x);
}

}  // namespace scalai::datasets
