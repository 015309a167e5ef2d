#include "ptc/state/tensor/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ptc/base/random.h"

namespace scalai::tensor {
namespace {

// A small floating type, spelled out value by value from its definition.
struct Small {
  DType dtype;
  int exponent_bits, mantissa_bits;
  bool infinity;
  int top() const { return (1 << (exponent_bits + mantissa_bits)) - 1; }
  int infinity_code() const { return infinity ? top() - ((1 << mantissa_bits) - 1) : top() + 1; }
  int max_finite() const { return infinity ? infinity_code() - 1 : top() - 1; }
  // Of a code without its sign bit.
  double value(int code) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = code >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  // Nearest code for a value that is not negative, ties to the even one; what rounds beyond the largest is not finite.
  int nearest(double magnitude) const {
    int lo = 0;
    int hi = max_finite() + 1;  // its value is where the next binade would begin or go on
    while (hi - lo > 1) {
      const int middle = (lo + hi) / 2;
      (value(middle) <= magnitude ? lo : hi) = middle;
    }
    const double below = magnitude - value(lo);
    const double above = value(hi) - magnitude;
    if (below < above) return lo;
    if (above < below) return hi;
    return lo % 2 == 0 ? lo : hi;
  }
  int expected(double x) const {
    const int sign = std::signbit(x) ? top() + 1 : 0;
    const double magnitude = std::fabs(x);
    if (magnitude > value(max_finite() + 1)) return sign | (infinity ? infinity_code() : top());
    const int code = nearest(magnitude);
    if (code > max_finite()) return sign | (infinity ? infinity_code() : top());
    return sign | code;
  }
};
constexpr Small kSmall[] = {{DType::kF8E4M3, 4, 3, false},
                            {DType::kF8E5M2, 5, 2, true},
                            {DType::kF16, 5, 10, true},
                            {DType::kBF16, 8, 7, true}};

template <class To, class From>
To cast(DType from, DType to, From value) {
  std::byte in[8] = {};
  std::byte out[8] = {};
  std::memcpy(in, &value, sizeof value);
  convert(from, to, 1, in, out);
  To result{};
  std::memcpy(&result, out, static_cast<size_t>(size_of(to)));
  return result;
}

TEST(Convert, WidensEveryCodeExactly) {
  for (const Small& type : kSmall) {
    for (int code = 0; code <= type.max_finite(); ++code) {
      SCOPED_TRACE(testing::Message() << name_of(type.dtype) << " " << code);
      const double value = type.value(code);
      const int negative = code | (type.top() + 1);
      ASSERT_EQ(cast<float>(type.dtype, DType::kF32, code), static_cast<float>(value));
      ASSERT_EQ(cast<double>(type.dtype, DType::kF64, negative), -value);
      ASSERT_TRUE(std::signbit(cast<float>(type.dtype, DType::kF32, negative)));
    }
    for (int code = type.max_finite() + 1; code <= type.top(); ++code) {
      const auto value = cast<float>(type.dtype, DType::kF32, code);
      ASSERT_EQ(std::isinf(value), code == type.infinity_code()) << name_of(type.dtype) << " " << code;
      ASSERT_EQ(std::isnan(value), code != type.infinity_code()) << name_of(type.dtype) << " " << code;
    }
  }
}

// Every value of the type, every middle between two, and what lies just beside them, from F32 and from F64, where the
// neighbours are so near that rounding twice would be seen.
TEST(Convert, RoundsToNearestEvenOnce) {
  for (const Small& type : kSmall) {
    for (int code = 0; code <= type.max_finite(); ++code) {
      const double middle = (type.value(code) + type.value(code + 1)) / 2;
      for (const double centre : {type.value(code), middle}) {
        const auto single = static_cast<float>(centre);
        for (const float x : {single, std::nextafter(single, 0.0f), std::nextafter(single, 1e38f)}) {
          ASSERT_EQ(cast<int>(DType::kF32, type.dtype, x), type.expected(x)) << name_of(type.dtype) << " " << x;
          ASSERT_EQ(cast<int>(DType::kF32, type.dtype, -x), type.expected(-x)) << name_of(type.dtype) << " " << -x;
        }
        for (const double x : {centre, std::nextafter(centre, 0.0), std::nextafter(centre, 1e300)}) {
          ASSERT_EQ(cast<int>(DType::kF64, type.dtype, x), type.expected(x)) << name_of(type.dtype) << " " << x;
          ASSERT_EQ(cast<int>(DType::kF64, type.dtype, -x), type.expected(-x)) << name_of(type.dtype) << " " << -x;
        }
      }
    }
  }
}

TEST(Convert, RoundsRandomBits) {
  const uint64_t seed = 41;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int i = 0; i < 200000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(random.next()));
    if (std::isnan(x)) continue;
    for (const Small& type : kSmall) {
      ASSERT_EQ(cast<int>(DType::kF32, type.dtype, x), type.expected(x)) << name_of(type.dtype) << " " << x;
    }
  }
}

TEST(Convert, KeepsInfinitiesAndNans) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cast<int>(DType::kF32, DType::kBF16, kInfinity), 0x7f80);
  EXPECT_EQ(cast<int>(DType::kF32, DType::kBF16, -kInfinity), 0xff80);
  EXPECT_EQ(cast<int>(DType::kF32, DType::kF16, -kInfinity), 0xfc00);
  EXPECT_EQ(cast<int>(DType::kF32, DType::kF8E5M2, kInfinity), 0x7c);
  EXPECT_EQ(cast<int>(DType::kF32, DType::kF8E4M3, kInfinity), 0x7f);
  EXPECT_EQ(cast<int>(DType::kF64, DType::kF8E4M3, 1e300), 0x7f);
  EXPECT_EQ(cast<int>(DType::kF64, DType::kF16, -1e300), 0xfc00);
  EXPECT_EQ(cast<float>(DType::kF64, DType::kF32, 1e300), kInfinity);
  for (const uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xffffffffu}) {
    for (const Small& type : kSmall) {
      const int code = cast<int>(DType::kF32, type.dtype, std::bit_cast<float>(bits));
      EXPECT_TRUE(std::isnan(cast<float>(type.dtype, DType::kF32, code))) << name_of(type.dtype) << " " << bits;
    }
  }
  EXPECT_TRUE(std::isnan(cast<float>(DType::kF64, DType::kF32, std::nan(""))));
  EXPECT_EQ(cast<double>(DType::kF32, DType::kF64, 0.1f), static_cast<double>(0.1f));
  EXPECT_EQ(cast<float>(DType::kF64, DType::kF32, 1.0 + std::ldexp(1, -24)), 1.0f);
}

// Long enough for vector code and its rest, at any alignment.
TEST(Convert, ManyAtOnceAreLikeOneByOne) {
  const uint64_t seed = 42;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const DType types[] = {DType::kF8E4M3, DType::kF8E5M2, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  for (const DType from : types) {
    for (const DType to : types) {
      const int64_t count = random.between(1, 70);
      const int64_t in_bytes = size_of(from);
      const int64_t out_bytes = size_of(to);
      std::vector<std::byte> in(static_cast<size_t>(1 + count * in_bytes));
      for (std::byte& byte : in) byte = static_cast<std::byte>(random.next());
      std::vector<std::byte> out(static_cast<size_t>(1 + count * out_bytes));
      convert(from, to, count, in.data() + 1, out.data() + 1);
      for (int64_t i = 0; i < count; ++i) {
        std::byte one[8];
        convert(from, to, 1, in.data() + 1 + i * in_bytes, one);
        ASSERT_EQ(std::memcmp(one, out.data() + 1 + i * out_bytes, static_cast<size_t>(out_bytes)), 0)
            << name_of(from) << " to " << name_of(to) << " element " << i << " of " << count;
      }
    }
  }
}

TEST(Convert, OnlyBetweenFloatingTypes) {
  EXPECT_TRUE(convertible(DType::kF64, DType::kF8E5M2));
  EXPECT_TRUE(convertible(DType::kI64, DType::kI64));
  EXPECT_FALSE(convertible(DType::kI32, DType::kF32));
  EXPECT_FALSE(convertible(DType::kBF16, DType::kU16));
  EXPECT_EQ(cast<int64_t>(DType::kI64, DType::kI64, int64_t{-7}), -7);
}

}  // namespace
}  // namespace scalai::tensor
