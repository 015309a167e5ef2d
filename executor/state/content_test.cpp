#include "executor/state/content.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "executor/state/testing/support.h"
#include "ptc/state/tensor/convert.h"

namespace scalai::executor::state {
namespace {
using tensor::Shape;

std::vector<std::byte> filled(const Content& content, const Box& box, DType dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(box.volume() * tensor::size_of(dtype)));
  fill_box(content, box, {box, dtype, bytes.data()});
  return bytes;
}

// The formula of the header, one element at a time.
uint64_t mix64(uint64_t z) {
  z ^= z >> 30;
  z *= 0xbf58476d1ce4e5b9u;
  z ^= z >> 27;
  z *= 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
uint32_t word_of(const Content& content, uint64_t index, bool swapped = false) {
  const uint64_t seed = mix64(content.key.value ^ mix64(static_cast<uint64_t>(content.step) + 0x632be59bd9b4e019u));
  const uint64_t words = mix64(seed + (index >> 16) * 0x9e3779b97f4a7c15u);
  auto u = static_cast<uint32_t>(words);
  auto v = static_cast<uint32_t>(words >> 32);
  if (swapped) std::swap(u, v);
  uint32_t x = u + static_cast<uint32_t>(index & 0xffffu) * 0x9e3779b9u;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x += v;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}
std::vector<std::byte> element_of(const Content& content, uint64_t index, DType dtype) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor::size_of(dtype)));
  const uint32_t word = word_of(content, index);
  if (convertible(DType::kF32, dtype)) {
    const auto value = static_cast<float>(std::ldexp(static_cast<float>(static_cast<int32_t>(word)), -31));
    convert(DType::kF32, dtype, 1, reinterpret_cast<const std::byte*>(&value), bytes.data());
    return bytes;
  }
  uint64_t integer = dtype == DType::kBool ? word >> 31 : word;
  if (tensor::size_of(dtype) == 8) integer = (uint64_t{word} << 32) | word_of(content, index, true);
  std::memcpy(bytes.data(), &integer, bytes.size());
  return bytes;
}

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) types.push_back(static_cast<DType>(i));
  return types;
}

// Every box of a small tensor, inside a larger buffer: right elements, and nothing else written.
TEST(Content, FillsEveryBoxByTheFormula) {
  const Shape shape{3, 2, 5};
  const Box whole = Box::whole(shape);
  const Content content{ContentKey::of("w"), shape, 7};
  for (const DType dtype : all_types()) {
    const auto size = static_cast<size_t>(tensor::size_of(dtype));
    for (const Box& box : boxes_in(shape)) {
      std::vector<std::byte> bytes(30 * size, std::byte{0xa5});
      fill_box(content, box, {whole, dtype, bytes.data()});
      for (const Index& index : indices_of(whole)) {
        const auto position = static_cast<size_t>(position_in(whole, index));
        const Box one({index[0], index[1], index[2]}, {index[0] + 1, index[1] + 1, index[2] + 1});
        const std::vector<std::byte> expected =
            box.contains(one) ? element_of(content, position, dtype) : std::vector<std::byte>(size, std::byte{0xa5});
        ASSERT_EQ(std::memcmp(bytes.data() + position * size, expected.data(), size), 0)
            << name_of(dtype) << " " << box.str() << " at " << one.str();
      }
    }
  }
}

// Long runs take vector code and cross the blocks of 2^16 elements; indices go beyond 32 bits.
TEST(Content, LongRunsFollowTheFormula) {
  const Shape shape{70000, 200000};
  const Content content{ContentKey::of("embedding"), shape, 123456789012};
  for (const DType dtype : all_types()) {
    const Box box({69999, 100}, {70000, 140100});
    const std::vector<std::byte> bytes = filled(content, box, dtype);
    const auto size = static_cast<size_t>(tensor::size_of(dtype));
    for (size_t i = 0; i < 140000; ++i) {
      const std::vector<std::byte> expected = element_of(content, 69999ull * 200000 + 100 + i, dtype);
      ASSERT_EQ(std::memcmp(bytes.data() + i * size, expected.data(), size), 0) << name_of(dtype) << " element " << i;
    }
  }
}

// State written by one build is checked by another: the values may not change.
TEST(Content, KnownAnswers) {
  const Content content{ContentKey::of("layers.3.attention.qkv.weight"), {4, 4}, 12};
  EXPECT_EQ(hash_box(content, Box::whole(content.shape), DType::kF32), 2900289034369438479u);
  EXPECT_EQ(hash_box(content, Box::whole(content.shape), DType::kBF16), 856410699044559819u);
  EXPECT_EQ(hash_box(content, Box::whole(content.shape), DType::kI64), 11841434607907339962u);
}

TEST(Content, RankZero) {
  const Content content{ContentKey::of("step"), Shape{}, 3};
  EXPECT_EQ(filled(content, Box(), DType::kI64), element_of(content, 0, DType::kI64));
}

TEST(Content, MasterIsTheParameterInFloat32) {
  const Shape shape{40, 30};
  const Box box({3, 4}, {20, 29});
  const Content param{ContentKey::of("a.weight"), shape, 5};
  const Content master{ContentKey::of("a.weight.master"), shape, 5};
  EXPECT_NE(ContentKey::of("a.weight.exp_avg"), ContentKey::of("a.weight"));
  const std::vector<std::byte> values = filled(master, box, DType::kF32);
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2, DType::kF64, DType::kF32}) {
    std::vector<std::byte> cast(static_cast<size_t>(box.volume() * tensor::size_of(dtype)));
    convert(DType::kF32, dtype, box.volume(), values.data(), cast.data());
    EXPECT_EQ(check_box(param, box, {box, dtype, cast.data()}), std::nullopt) << name_of(dtype);
  }
}

// Narrowed on the way and widened again.
TEST(Content, ViaANarrowerType) {
  const Shape shape{64, 64};
  const Box box = Box::whole(shape);
  Content content{ContentKey::of("w"), shape, 1};
  const std::vector<std::byte> narrow = filled(content, box, DType::kBF16);
  std::vector<std::byte> wide(64 * 64 * 4);
  convert(DType::kBF16, DType::kF32, box.volume(), narrow.data(), wide.data());
  EXPECT_TRUE(check_box(content, box, {box, DType::kF32, wide.data()}).has_value());
  content.via = DType::kBF16;
  EXPECT_FALSE(check_box(content, box, {box, DType::kF32, wide.data()}).has_value());
  EXPECT_FALSE(check_box(content, box, {box, DType::kBF16, narrow.data()}).has_value());
  EXPECT_EQ(filled(content, box, DType::kF32), wide);
  EXPECT_EQ(hash_box(content, box, DType::kF32), hash_box({box, DType::kF32, wide.data()}, box));
}

TEST(Content, IsFiniteAndSmall) {
  const Shape shape{1000, 1000};
  const std::vector<std::byte> bytes = filled({ContentKey::of("w"), shape, 0}, Box::whole(shape), DType::kF32);
  double sum = 0;
  for (size_t i = 0; i < 1000000; ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    ASSERT_LE(std::fabs(value), 1.0f);
    sum += value;
  }
  EXPECT_LT(std::fabs(sum / 1e6), 0.005);  // eight times the standard deviation of the mean
}

// Elements that agree between two fills, in 100,000.
int64_t equal_elements(const std::vector<std::byte>& a, const std::vector<std::byte>& b, size_t size) {
  int64_t equal = 0;
  for (size_t i = 0; i < a.size(); i += size) equal += std::memcmp(a.data() + i, b.data() + i, size) == 0;
  return equal;
}

TEST(Content, DiffersBetweenStepsTensorsJobsAndNeighbours) {
  const Shape shape{100001};
  const Box box({0}, {100000});
  const Content base{ContentKey::of("w"), shape, 10};
  const Content others[] = {
      {ContentKey::of("w"), shape, 11}, {ContentKey::of("v"), shape, 10}, {ContentKey::of("w", "job2"), shape, 10}};
  for (const auto& [dtype, most] : {std::pair(DType::kF32, 2), {DType::kI64, 0}, {DType::kBF16, 400}}) {
    const std::vector<std::byte> values = filled(base, box, dtype);
    const auto size = static_cast<size_t>(tensor::size_of(dtype));
    for (const Content& other : others) EXPECT_LE(equal_elements(values, filled(other, box, dtype), size), most);
    EXPECT_LE(equal_elements(values, filled(base, Box({1}, {100001}), dtype), size), most);
  }
}

// Each single wrong bit is found, with the right coordinates.
TEST(Content, CheckNamesTheFirstWrongElement) {
  const Shape shape{4, 3, 5};
  const Box buffer({1, 0, 1}, {4, 3, 5});
  const Box part({1, 1, 2}, {3, 3, 4});
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kU8, DType::kI64}) {
    const Content content{ContentKey::of("w"), shape, 2};
    std::vector<std::byte> bytes = filled(content, buffer, dtype);
    const auto size = static_cast<size_t>(tensor::size_of(dtype));
    ASSERT_FALSE(check_box(content, part, {buffer, dtype, bytes.data()}).has_value());
    for (const Index& index : indices_of(buffer)) {
      const auto at = static_cast<size_t>(position_in(buffer, index)) * size;
      const Box one({index[0], index[1], index[2]}, {index[0] + 1, index[1] + 1, index[2] + 1});
      for (size_t bit = 0; bit < 8 * size; ++bit) {
        bytes[at + bit / 8] ^= std::byte{1} << (bit % 8);
        const std::optional<Mismatch> found = check_box(content, part, {buffer, dtype, bytes.data()});
        ASSERT_EQ(found.has_value(), part.contains(one)) << one.str();
        if (found) {
          ASSERT_EQ(found->index, index) << found->str();
        }
        bytes[at + bit / 8] ^= std::byte{1} << (bit % 8);
      }
    }
    bytes.back() ^= std::byte{1};
    bytes[static_cast<size_t>(position_in(buffer, {1, 1, 2})) * size] ^= std::byte{1};
    EXPECT_EQ(check_box(content, buffer, {buffer, dtype, bytes.data()})->index, (Index{1, 1, 2}));
  }
}

TEST(Content, MismatchSaysWhatWasExpectedAndFound) {
  const Content content{ContentKey::of("w"), {2, 4}, 2};
  const Box box = Box::whole(content.shape);
  std::vector<std::byte> bytes = filled(content, box, DType::kBF16);
  uint16_t right = 0;
  std::memcpy(&right, bytes.data() + 10, 2);
  bytes[10] = bytes[11] = std::byte{0};
  const Mismatch mismatch = check_box(content, box, {box, DType::kBF16, bytes.data()}).value();
  EXPECT_EQ(mismatch.found, "0 (0x0000)");
  char bits[16];
  std::snprintf(bits, sizeof bits, "(0x%04x)", right);
  EXPECT_NE(mismatch.expected.find(bits), std::string::npos) << mismatch.expected;
  EXPECT_EQ(mismatch.str(), "element [1, 1] is 0 (0x0000), expected " + mismatch.expected);
}

TEST(Content, HashesOfContentAndOfBytesAgree) {
  const uint64_t seed = 43;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const Shape shape{6, 50, 90};
  const Content content{ContentKey::of("w"), shape, 2};
  std::set<uint64_t> hashes;
  for (int i = 0; i < 50; ++i) {
    const Box buffer = random_box(random, Box::whole(shape));
    const Box part = random_box(random, buffer);
    const std::vector<std::byte> bytes = filled(content, buffer, DType::kBF16);
    const uint64_t expected = hash_box(content, part, DType::kBF16);
    EXPECT_EQ(hash_box({buffer, DType::kBF16, bytes.data()}, part), expected) << buffer.str() << " " << part.str();
    const Content later{content.key, shape, 3};
    EXPECT_NE(hash_box(later, part, DType::kBF16), expected) << part.str();
  }
}

}  // namespace
}  // namespace scalai::executor::state
