#include "executor/cuda/kernels/memory_access.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/state/tensor/codec.h"

namespace scalai::executor::cuda::kernels {
namespace {

struct alignas(16) Bytes {
  std::byte at[64];
};
Bytes numbered() {
  Bytes bytes;
  for (size_t i = 0; i < 64; ++i) bytes.at[i] = static_cast<std::byte>(i + 1);
  return bytes;
}

TEST(MemoryAccess, AnyAlignmentAndPartIsRead) {
  const Bytes bytes = numbered();
  for (uint32_t skew = 0; skew < 16; ++skew) {
    for (uint32_t lo = 0; lo < 16; ++lo) {
      for (uint32_t hi = lo + 1; hi <= 16; ++hi) {
        const Quad quad = load_any(bytes.at + 16 + skew, lo, hi);
        ASSERT_EQ(std::memcmp(reinterpret_cast<const std::byte*>(&quad) + lo, bytes.at + 16 + skew + lo, hi - lo), 0)
            << skew << " " << lo << " " << hi;
      }
    }
  }
}

// Bytes outside of the granules that overlap the part are not even looked at: they come out as zeros.
TEST(MemoryAccess, OnlyGranulesOfThePartAreRead) {
  const Bytes bytes = numbered();
  for (uint32_t skew = 1; skew < 16; ++skew) {
    const Quad first = load_any(bytes.at + 16 + skew, 0, 16 - skew);
    for (uint32_t i = 16 - skew; i < 16; ++i) ASSERT_EQ(reinterpret_cast<const std::byte*>(&first)[i], std::byte{0});
    const Quad second = load_any(bytes.at + 16 + skew, 16 - skew, 16);
    for (uint32_t i = 0; i < 16 - skew; ++i) ASSERT_EQ(reinterpret_cast<const std::byte*>(&second)[i], std::byte{0});
  }
}

TEST(MemoryAccess, PartsAreStoredAndNothingElse) {
  const Bytes from = numbered();
  Quad quad;
  std::memcpy(&quad, from.at, 16);
  for (uint32_t lo = 0; lo <= 16; ++lo) {
    for (uint32_t hi = lo; hi <= 16; ++hi) {
      Bytes to{};
      store_part(to.at + 16, quad, lo, hi);
      for (uint32_t i = 0; i < 64; ++i) {
        const bool inside = i >= 16 + lo && i < 16 + hi;
        ASSERT_EQ(to.at[i], inside ? from.at[i - 16] : std::byte{0}) << lo << " " << hi << " " << i;
      }
    }
  }
}

TEST(MemoryAccess, BytewiseIsTheSame) {
  Bytes bytes = numbered();
  EXPECT_EQ(load_bytes<uint64_t>(bytes.at + 1), 0x0908070605040302u);
  EXPECT_EQ(load_bytes<uint16_t>(bytes.at + 3), 0x0504u);
  store_bytes<uint32_t>(bytes.at + 5, 0xa1b2c3d4u);
  EXPECT_EQ(load_bytes<uint32_t>(bytes.at + 5), 0xa1b2c3d4u);
  EXPECT_EQ(bytes.at[4], std::byte{5});
  EXPECT_EQ(bytes.at[9], std::byte{10});
}

// On a GPU these take the place of the processor's own conversions of NaN, which have one result only there.
TEST(MemoryAccess, NanChangesItsWidthAsOnTheHost) {
  Random random(5);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t wide = 0x7ff0000000000000u | random.next();
    if ((wide & 0xfffffffffffffu) == 0) continue;
    const volatile double from = std::bit_cast<double>(wide);
    const volatile auto narrow = static_cast<float>(from);
    ASSERT_EQ(std::bit_cast<uint32_t>(tensor::codec::quiet_float(wide)), std::bit_cast<uint32_t>(float{narrow}));
    const uint32_t bits = 0x7f800000u | static_cast<uint32_t>(random.next());
    if ((bits & 0x7fffffu) == 0) continue;
    const volatile float small = std::bit_cast<float>(bits);
    const volatile double widened = small;
    ASSERT_EQ(std::bit_cast<uint64_t>(tensor::codec::quiet_double(bits)), std::bit_cast<uint64_t>(double{widened}));
  }
}

}  // namespace
}  // namespace scalai::executor::cuda::kernels
