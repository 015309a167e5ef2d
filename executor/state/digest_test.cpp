#include "executor/state/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include "executor/state/copy.h"
#include "executor/state/testing/support.h"

namespace scalai::executor::state {
namespace {

constexpr uint64_t kP1 = 11400714785074694791u;
constexpr uint64_t kP2 = 14029467366897019727u;
constexpr uint64_t kP3 = 1609587929392839161u;
constexpr uint64_t kP4 = 9650029242287828579u;

uint64_t rotl(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
uint64_t avalanche(uint64_t x) {
  x ^= x >> 33;
  x *= kP2;
  x ^= x >> 29;
  x *= kP3;
  x ^= x >> 32;
  return x;
}

// The formula of the header over dense bytes.
uint64_t reference(std::vector<std::byte> bytes) {
  const uint64_t length = bytes.size();
  bytes.resize((bytes.size() + 127) / 128 * 128);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < bytes.size() / 128; ++i) {
    uint64_t words[16];
    std::memcpy(words, bytes.data() + i * 128, 128);
    uint64_t a[4];
    for (uint64_t k = 0; k < 4; ++k) {
      a[k] = i * kP2 + k * kP3;
      for (uint64_t j = k; j < 16; j += 4) a[k] = rotl(a[k] + words[j] * kP2, 31) * kP1;
    }
    sum += avalanche(rotl(a[0], 1) + rotl(a[1], 7) + rotl(a[2], 12) + rotl(a[3], 18) + i * kP4);
  }
  return avalanche(sum + length * kP3);
}

std::vector<std::byte> packed(const Box& part, const Source& src) {
  std::vector<std::byte> bytes(static_cast<size_t>(packed_bytes(part, src.dtype)));
  if (!part.empty()) pack_box(part, src, src.dtype, bytes.data());
  return bytes;
}

TEST(Digest, EveryLengthByTheFormula) {
  Random random(1);
  const std::vector<std::byte> bytes = random_bytes(random, 700);
  for (int64_t length = 0; length <= 700; ++length) {
    const Box box({0}, {length});
    const Source src{box, DType::kU8, bytes.data()};
    ASSERT_EQ(box_digest(src, box), reference(packed(box, src))) << length;
  }
}

TEST(Digest, PartsOfEveryRankAndType) {
  const uint64_t seed = 2;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int i = 0; i < 2000; ++i) {
    Box whole;
    whole.rank = static_cast<int8_t>(random.between(0, tensor::kMaxRank));
    for (size_t d = 0; d < static_cast<size_t>(whole.rank); ++d) {
      whole.hi[d] = random.between(1, whole.rank > 3 ? 6 : 30);
    }
    const auto dtype = static_cast<DType>(random.below(15));
    const std::vector<std::byte> bytes = random_bytes(random, whole.volume() * tensor::size_of(dtype));
    const Source src{whole, dtype, bytes.data()};
    const Box part = random_box(random, whole);
    ASSERT_EQ(box_digest(src, part), reference(packed(part, src))) << part.str() << " in " << whole.str();
  }
}

// What corruption looks like: one bit, two words or two leaves exchanged, zeros at the end.
TEST(Digest, TellsNearlyEqualBytesApart) {
  Random random(3);
  const std::vector<std::byte> bytes = random_bytes(random, 512);
  const auto digest = [](const std::vector<std::byte>& of) {
    const Box box({0}, {static_cast<int64_t>(of.size())});
    return box_digest({box, DType::kU8, of.data()}, box);
  };
  std::set<uint64_t> seen{digest(bytes)};
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::vector<std::byte> other = bytes;
    other[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(seen.insert(digest(other)).second) << bit;
  }
  const auto exchanged = [&](size_t size, size_t a, size_t b) {
    std::vector<std::byte> other = bytes;
    std::swap_ranges(other.begin() + static_cast<int64_t>(a * size),
                     other.begin() + static_cast<int64_t>((a + 1) * size),
                     other.begin() + static_cast<int64_t>(b * size));
    return digest(other);
  };
  for (size_t b = 0; b < 4; ++b) {
    for (size_t a = 0; a < b; ++a) EXPECT_TRUE(seen.insert(exchanged(128, a, b)).second) << a << " " << b;
  }
  for (size_t b = 0; b < 64; ++b) {
    for (size_t a = 0; a < b; ++a) EXPECT_TRUE(seen.insert(exchanged(8, a, b)).second) << a << " " << b;
  }
  std::vector<std::byte> longer = bytes;
  for (int i = 0; i < 200; ++i) {
    longer.push_back(std::byte{0});
    EXPECT_TRUE(seen.insert(digest(longer)).second) << longer.size();
  }
}

// The value is part of what peers agree on: it never changes.
TEST(Digest, Golden) {
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  const Box box({0}, {1000});
  EXPECT_EQ(box_digest({box, DType::kU8, bytes.data()}, box), 9423988094436586473u);
  EXPECT_EQ(box_digest({box, DType::kU8, nullptr}, Box({0}, {0})), 0u);
}

// The formula of the header, with the product of 128 bits made of 32-bit parts.
uint64_t folded(uint64_t a, uint64_t b) {
  const uint64_t low = (a & 0xffffffff) * (b & 0xffffffff), middle = (a >> 32) * (b & 0xffffffff) + (low >> 32),
                 other = (a & 0xffffffff) * (b >> 32) + (middle & 0xffffffff);
  return (a * b) ^ ((a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32));
}
uint64_t sum_by_formula(const tensor::Shape& shape, const Source& src, const Box& part) {
  uint64_t sum = 0;
  const std::vector<std::byte> bytes = packed(part, src);
  const auto size = static_cast<size_t>(tensor::size_of(src.dtype));
  size_t at = 0;
  for (const Index& index : indices_of(part)) {
    uint64_t bits = 0, number = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    at += size;
    for (int dim = 0; dim < shape.rank(); ++dim)
      number = number * static_cast<uint64_t>(shape[dim]) + static_cast<uint64_t>(index[static_cast<size_t>(dim)]);
    sum += folded(number * kP1 + bits * kP2 + kP3, kP4);
  }
  return sum;
}

TEST(ElementSum, ByTheFormulaHoweverItIsCut) {
  const uint64_t seed = 7;
  SCOPED_TRACE(seed);
  Random random(seed);
  for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF32, DType::kF64}) {
    const tensor::Shape shape{5, 7, 6};
    const Box whole = Box::whole(shape);
    const std::vector<std::byte> bytes = random_bytes(random, packed_bytes(whole, dtype));
    const Source src{whole, dtype, bytes.data()};
    const uint64_t all = element_sum(shape, src, whole);
    EXPECT_EQ(all, sum_by_formula(shape, src, whole));
    for (int round = 0; round < 50; ++round) {
      const auto dim = static_cast<size_t>(random.below(3));
      Box low = whole, high = whole;
      low.hi[dim] = high.lo[dim] = random.below(shape[static_cast<int>(dim)] + 1);
      ASSERT_EQ(element_sum(shape, src, low) + element_sum(shape, src, high), all) << low.str();
      if (!low.empty()) {
        ASSERT_EQ(element_sum(shape, src, low), sum_by_formula(shape, src, low)) << low.str();
      }
    }
  }
}

TEST(ElementSum, TellsChangesApart) {
  Random random(8);
  const tensor::Shape shape{32};
  const Box whole = Box::whole(shape);
  for (const std::vector<std::byte>& base : {random_bytes(random, 128), std::vector<std::byte>(128)}) {
    std::vector<std::byte> bytes = base;
    std::set<uint64_t> sums;
    const auto note = [&] {
      EXPECT_TRUE(sums.insert(element_sum(shape, {whole, DType::kF32, bytes.data()}, whole)).second);
    };
    note();
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes = base;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      note();
    }
    bytes.assign(128, std::byte{0});  // one element, anywhere
    for (size_t i = 0; i < 32; ++i) {
      bytes[4 * i] = std::byte{3};
      note();
      bytes[4 * i] = std::byte{0};
    }
  }
  std::vector<std::byte> bytes = random_bytes(random, 128);
  std::set<uint64_t> sums = {element_sum(shape, {whole, DType::kF32, bytes.data()}, whole)};
  for (size_t i = 0; i < 32; ++i) {
    for (size_t j = 0; j < i; ++j) {  // two elements that change places
      std::swap_ranges(bytes.data() + 4 * i, bytes.data() + 4 * i + 4, bytes.data() + 4 * j);
      EXPECT_TRUE(sums.insert(element_sum(shape, {whole, DType::kF32, bytes.data()}, whole)).second) << i << " " << j;
      std::swap_ranges(bytes.data() + 4 * i, bytes.data() + 4 * i + 4, bytes.data() + 4 * j);
    }
  }
}

TEST(DigestChunks, AreRunsOfSlicesThatCoverTheBoxOnce) {
  const auto text = [](const Box& box, int64_t bytes) {
    std::string all;
    for (const Box& one : digest_chunks(box, DType::kF32, bytes)) all += one.str();
    return all;
  };
  const Box box = *tensor::parse_box("[2:7, 1:5]");
  EXPECT_EQ(text(box, 1000), box.str());
  EXPECT_EQ(text(box, 80), box.str());
  EXPECT_EQ(text(box, 47), "[2:4, 1:5][4:6, 1:5][6:7, 1:5]");
  EXPECT_EQ(text(*tensor::parse_box("[2:3, 1:5]"), 12), "[2:3, 1:4][2:3, 4:5]");
  EXPECT_EQ(text(*tensor::parse_box("[2:4, 1:3]"), 1), "[2:3, 1:2][2:3, 2:3][3:4, 1:2][3:4, 2:3]");
  EXPECT_EQ(text(*tensor::parse_box("[2:4, 1:1]"), 4), "");
  EXPECT_EQ(text(Box::whole({}), 4), Box::whole({}).str());
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> extents;
    for (int64_t dims = random.between(0, 4); dims > 0; --dims) extents.push_back(random.between(1, 9));
    const tensor::Shape shape{std::span<const int64_t>(extents)};
    const int64_t bytes = random.between(1, 300);
    const std::vector<Box> chunks = digest_chunks(Box::whole(shape), DType::kBF16, bytes);
    EXPECT_EQ(tensor::subtract(Box::whole(shape), chunks), std::vector<Box>());
    int64_t elements = 0;
    for (const Box& one : chunks) {
      EXPECT_LE(one.volume() * 2, std::max<int64_t>(2, bytes));
      elements += one.volume();
    }
    EXPECT_EQ(elements, Box::whole(shape).volume());
  }
}

}  // namespace
}  // namespace scalai::executor::state
