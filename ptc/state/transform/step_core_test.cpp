#include "ptc/state/transform/step_core.h"

#include <gmock/gmock.h>

#include <limits>

#include "ptc/state/tensor/convert.h"
#include "ptc/state/transform/testing/device_cases.h"

namespace scalai::transform::step_core {
namespace step_core_test {

uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }
double of_bits(uint64_t bits) { return std::bit_cast<double>(bits); }

TEST(StepCore, ANaNIsTheFirstOneMadeQuietOrThatOfX86) {
  constexpr uint64_t kFirst = 0xfff0000000000123u, kSecond = 0x7ff4000000000456u;  // signalling
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& operation : {times, plus, over}) {
    EXPECT_EQ(bits_of(operation(of_bits(kFirst), of_bits(kSecond))), 0xfff8000000000123u);
    EXPECT_EQ(bits_of(operation(of_bits(kSecond), of_bits(kFirst))), 0x7ffc000000000456u);
    EXPECT_EQ(bits_of(operation(2, of_bits(kSecond))), 0x7ffc000000000456u);
  }
  EXPECT_EQ(times(6, 3), 18);
  EXPECT_EQ(plus(6, 3), 9);
  EXPECT_EQ(over(6, 3), 2);
  EXPECT_EQ(bits_of(times(0, kInfinity)), 0xfff8000000000000u);
  EXPECT_EQ(bits_of(plus(kInfinity, -kInfinity)), 0xfff8000000000000u);
  EXPECT_EQ(bits_of(over(0, 0)), 0xfff8000000000000u);
}

TEST(StepCore, NothingIsContracted) {
  const double a = 1 + 0x1p-30, b = 1 - 0x1p-30;
  EXPECT_EQ(plus(times(a, b), -1), 0) << "with a fused multiply-add it is -2^-60";
  EXPECT_EQ(dot(
                2, [&](int64_t k) { return k == 0 ? -1.0 : a; }, [&](int64_t k) { return k == 0 ? 1.0 : b; }),
            0);
}

TEST(StepCore, SumsOfProductsKeepTheFirstNaN) {
  const std::array a = {1.0, of_bits(0x7ff8000000000001u), of_bits(0xfff8000000000002u)};
  const auto value = [&](int64_t k) { return a[static_cast<size_t>(k)]; };
  EXPECT_EQ(bits_of(dot(3, value, [](int64_t) { return 1.0; })), 0x7ff8000000000001u);
  EXPECT_EQ(dot(1, value, [](int64_t) { return 3.0; }), 3);
  EXPECT_EQ(dot(0, value, [](int64_t) { return 3.0; }), 0);
}

TEST(StepCore, FactorsAreThoseOfTheLargestMagnitude) {
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(factor_of(0), 1);
  EXPECT_EQ(factor_of(127), 1);
  EXPECT_EQ(factor_of(127.0 * double{kMost}), kMost);
  EXPECT_EQ(factor_of(128.0 * double{kMost}), std::numeric_limits<float>::infinity());
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(factor_of(double{kLeast}), kLeast) << "not 0, which divides nothing";
  EXPECT_EQ(factor_of(127 * 1.6 * double{kLeast}), 2 * kLeast);
  EXPECT_EQ(factor_of(127 * 1.4 * double{kLeast}), 2 * kLeast) << "the next one, as 178 is no code";
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto value = double{std::bit_cast<float>(static_cast<uint32_t>(random.below(0x7f800000)))};
    const float factor = factor_of(value);
    EXPECT_EQ(code_of(value, factor), value == 0 ? 0 : std::min(127.0, std::rint(value / double{factor})));
    EXPECT_EQ(code_of(-value, factor), -code_of(value, factor));
    EXPECT_LE(value / double{factor}, 127.5);
  }
}

// Every type to every other, as tensor::convert does it.
TEST(StepCore, CastsAreThoseOfConvert) {
  Random random(5);
  for (const DType from : kFloats) {
    const int64_t count = 4096;
    const std::vector<std::byte> in = random_elements(random, from, count, false);
    for (const DType to : kFloats) {
      if (from == to) continue;
      const auto bytes = static_cast<size_t>(count * tensor::size_of(to));
      std::vector<std::byte> expected(bytes), got(bytes);
      tensor::convert(from, to, count, in.data(), expected.data());
      const Elements work{.from = from, .to = to, .count = count, .in = in.data(), .out = got.data()};
      for (int64_t thread = 0; thread < 3; ++thread) run(work, thread, 3);
      EXPECT_EQ(got, expected) << "seed 5: " << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(StepCore, PeaksTellRowsThatAreNotFinite) {
  const std::array<float, 6> values = {1, -3, 2, std::numeric_limits<float>::infinity(), 1, 1};
  std::array<uint64_t, 3> peaks{};
  const RowPeaks work{DType::kF32, 3, 2, reinterpret_cast<const std::byte*>(values.data()),
                      reinterpret_cast<std::byte*>(peaks.data())};
  for (int64_t thread = 0; thread < 4; ++thread) run(work, thread, 4);
  EXPECT_EQ(peaks, (std::array<uint64_t, 3>{bits_of(3), kNotFinite, bits_of(1)}));
  EXPECT_EQ(factor_of(reinterpret_cast<const std::byte*>(peaks.data()), 1), std::numeric_limits<float>::infinity());
}

}  // namespace step_core_test
}  // namespace scalai::transform::step_core
