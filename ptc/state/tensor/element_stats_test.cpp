// Against plain loops over values, element by element.
#include "ptc/state/tensor/element_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/state/tensor/convert.h"

namespace scalai::tensor {
namespace element_stats_test {

template <class Value>
std::vector<std::byte> bytes_of(const std::vector<Value>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(Value));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class Value>
ElementStats stats(DType dtype, const std::vector<Value>& values) {
  return stats_of(dtype, std::ssize(values), bytes_of(values).data());
}

TEST(ElementStats, CountsWhatIsNoNumber) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const ElementStats seen = stats<float>(DType::kF32, {1, -3, 0, -0.0F, inf, -inf, nan, 0.5F});
  EXPECT_EQ(seen.elements, 8);
  EXPECT_EQ(seen.nans, 1);
  EXPECT_EQ(seen.infinities, 2);
  EXPECT_EQ(seen.zeros, 2);
  EXPECT_EQ(seen.finite(), 5);
  EXPECT_EQ(seen.min, -3);
  EXPECT_EQ(seen.max, 1);
  EXPECT_EQ(seen.sum, -1.5);
  EXPECT_EQ(seen.mean(), -0.3);
  EXPECT_EQ(seen.norm(), std::sqrt(1 + 9 + 0.25));
}

// 1 and 1.5 are in [2^0, 2), 3 in [2, 4), 0.5 in [1/2, 1); the least float and its like with the smallest.
TEST(ElementStats, MagnitudesAreByPowersOfTwo) {
  const ElementStats seen = stats<float>(DType::kF32, {1, -1.5F, 3, 0.5F, 0, 1e-45F, 3.4e38F});
  const auto at = [&](int power) { return seen.magnitudes.at(static_cast<size_t>(power + ElementStats::kBias)); };
  EXPECT_EQ(at(0), 2);
  EXPECT_EQ(at(1), 1);
  EXPECT_EQ(at(-1), 1);
  EXPECT_EQ(at(-127), 1);
  EXPECT_EQ(at(127), 1);
  const ElementStats wide = stats<double>(DType::kF64, {1e300, 1e-300, 0, 2});
  EXPECT_EQ(wide.magnitudes.back(), 1);
  EXPECT_EQ(wide.magnitudes.front(), 1);
  EXPECT_EQ(wide.magnitudes.at(ElementStats::kBias + 1), 1);
}

TEST(ElementStats, OfNothing) {
  const ElementStats seen = stats_of(DType::kBF16, 0, nullptr);
  EXPECT_EQ(seen.elements, 0);
  EXPECT_EQ(seen.mean(), 0);
  EXPECT_GT(seen.min, seen.max);
}

TEST(ElementStats, OfIntegers) {
  const ElementStats seen = stats<int8_t>(DType::kI8, {-128, 127, 0, 5});
  EXPECT_EQ(seen.min, -128);
  EXPECT_EQ(seen.max, 127);
  EXPECT_EQ(seen.sum, 4);
  EXPECT_EQ(seen.zeros, 1);
  EXPECT_EQ(stats<uint64_t>(DType::kU64, {uint64_t{1} << 63}).max, std::ldexp(1.0, 63));
  EXPECT_EQ(stats<int64_t>(DType::kI64, {-(int64_t{1} << 40)}).min, -std::ldexp(1.0, 40));
  EXPECT_EQ(stats<uint8_t>(DType::kBool, {1, 0, 1}).sum, 2);
}

// Random bytes of every type, in one piece and in chunks: counts and extremes equal, sums to rounding.
TEST(ElementStats, EqualAPlainLoopForAllTypes) {
  constexpr int kSeed = 7;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (const std::string& name : dtype_names()) {
    SCOPED_TRACE(name);
    const DType dtype = parse_dtype(name).value();
    const int64_t size = size_of(dtype), count = 10'007;
    std::vector<std::byte> data(static_cast<size_t>(size * count));
    for (std::byte& byte : data) byte = static_cast<std::byte>(random.next() >> 56);
    if (dtype == DType::kBool)
      for (std::byte& byte : data) byte &= std::byte{1};
    std::vector<double> values(static_cast<size_t>(count));
    if (convertible(dtype, DType::kF64)) {
      convert(dtype, DType::kF64, count, data.data(), reinterpret_cast<std::byte*>(values.data()));
    } else {
      const bool is_signed = name[0] == 'I';
      for (int64_t i = 0; i < count; ++i) {
        uint64_t raw = 0;
        std::memcpy(&raw, data.data() + i * size, static_cast<size_t>(size));
        const auto shift = static_cast<int>(64 - 8 * size);
        values[static_cast<size_t>(i)] =
            is_signed ? static_cast<double>(static_cast<int64_t>(raw << shift) >> shift) : static_cast<double>(raw);
      }
    }
    int64_t nans = 0, infinities = 0, zeros = 0;
    long double sum = 0, squares = 0, sizes = 0;
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (const double value : values) {
      nans += std::isnan(value);
      infinities += std::isinf(value);
      zeros += value == 0;
      if (!std::isfinite(value)) continue;
      sum += value, squares += static_cast<long double>(value) * value, sizes += std::abs(value);
      least = std::min(least, value), most = std::max(most, value);
    }
    const ElementStats whole = stats_of(dtype, count, data.data());
    ElementStats parts;
    for (int64_t at = 0; at < count; at += 997)
      parts.add(stats_of(dtype, std::min<int64_t>(997, count - at), data.data() + at * size));
    for (const ElementStats* seen : std::initializer_list<const ElementStats*>{&whole, &parts}) {
      EXPECT_EQ(seen->elements, count);
      EXPECT_EQ(seen->nans, nans);
      EXPECT_EQ(seen->infinities, infinities);
      EXPECT_EQ(seen->zeros, zeros);
      EXPECT_EQ(seen->min, least);
      EXPECT_EQ(seen->max, most);
      if (sizes < 1e300L) {
        EXPECT_NEAR(seen->sum, static_cast<double>(sum), 1e-12 * static_cast<double>(sizes));
      }
      if (squares < 1e300L) {
        EXPECT_NEAR(seen->squares, static_cast<double>(squares), 1e-12 * static_cast<double>(squares));
      }
      int64_t magnitudes = 0;
      for (const int64_t some : seen->magnitudes) magnitudes += some;
      EXPECT_EQ(magnitudes, count - nans - infinities - zeros);
    }
    EXPECT_EQ(whole.magnitudes, parts.magnitudes);
  }
}

TEST(ElementChange, SaysWhatDiffers) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const auto now = bytes_of<float>({1, 2, nan, inf, inf, 0, -0.0F, nan, 4});
  const auto before = bytes_of<float>({1, 5, nan, inf, -inf, -0.0F, 0, 3, 0});
  const ElementChange change = change_of(9, DType::kF32, now.data(), DType::kF32, before.data());
  EXPECT_EQ(change.elements, 9);
  EXPECT_EQ(change.changed, 4);
  EXPECT_EQ(change.no_number, 2);
  EXPECT_EQ(change.norm(), 5);
  EXPECT_EQ(change.largest, 4);
}

TEST(ElementChange, BeyondTheRangeOfDoubleIsInfinite) {
  const std::vector<std::byte> now = bytes_of<double>({1e308, 1}), before = bytes_of<double>({-1e308, 1});
  const ElementChange change = change_of(2, DType::kF64, now.data(), DType::kF64, before.data());
  EXPECT_EQ(change.changed, 1);
  EXPECT_EQ(change.no_number, 0);
  EXPECT_TRUE(std::isinf(change.largest) && std::isinf(change.norm()));
}

// A tensor and its rounding to BF16: 1 + 2^-9 is 1.
TEST(ElementChange, TypesMayDiffer) {
  const std::vector<std::byte> now = bytes_of<float>({1, 1 + 1.0F / 512, 3});
  std::vector<std::byte> before(6);
  convert(DType::kF32, DType::kBF16, 3, now.data(), before.data());
  const ElementChange change = change_of(3, DType::kF32, now.data(), DType::kBF16, before.data());
  EXPECT_EQ(change.changed, 1);
  EXPECT_EQ(change.largest, 1.0 / 512);
}

}  // namespace element_stats_test
}  // namespace scalai::tensor
