#include "ptc/base/hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "ptc/base/random.h"

namespace scalai {
namespace {

TEST(Hasher, HasTheDigestThatFilesHold) {
  // Reference values of the encoding: they are in plans and checkpoints, so they never change.
  EXPECT_EQ(Hasher().hex(), "99aa06d3014798d86001c324468d497f");  // XXH3-128 of nothing
  EXPECT_EQ(digest_of(""), Hasher().add(int64_t{0}).hex());
  EXPECT_EQ(digest_of("abc"), Hasher().add("abc").hex());
  EXPECT_EQ(digest_of("abc").find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(digest_of("abc").size(), 32u);
}

TEST(Hasher, CountsLengthsSoThatNeighboursDoNotMerge) {
  EXPECT_NE(Hasher().add("ab").add("c").hex(), Hasher().add("a").add("bc").hex());
  EXPECT_NE(Hasher().add("").add("a").hex(), Hasher().add("a").add("").hex());
  EXPECT_NE(Hasher().add(int64_t{1}).add(int64_t{2}).hex(), Hasher().add(int64_t{2}).add(int64_t{1}).hex());
}

TEST(Hasher, WritesIntegersLittleEndian) {
  // add(text) is the length, then the bytes; eight bytes of text must equal the integer they spell.
  EXPECT_EQ(Hasher().add(std::string_view("\x01\x02\x03\x04\x05\x06\x07\x08")).hex(),
            Hasher().add(int64_t{8}).add(int64_t{0x0807060504030201}).hex());
}

TEST(Hasher, TakesMinusZeroForZero) {
  EXPECT_EQ(Hasher().add_double(-0.0).hex(), Hasher().add_double(0.0).hex());
  EXPECT_NE(Hasher().add_double(1.0).hex(), Hasher().add_double(-1.0).hex());
  EXPECT_NE(Hasher().add_double(1.0).hex(), Hasher().add_double(std::nextafter(1.0, 2.0)).hex());
}

TEST(Hasher, HexDoesNotEndTheStream) {
  Hasher hasher;
  const std::string early = hasher.add("a").hex();
  EXPECT_EQ(early, hasher.hex());
  EXPECT_EQ(hasher.add("b").hex(), Hasher().add("a").add("b").hex());
}

TEST(Hasher, TellsManyInputsApart) {
  std::set<std::string> digests;
  for (int64_t i = -5'000; i < 5'000; ++i) digests.insert(Hasher().add(i).hex());
  EXPECT_EQ(digests.size(), 10'000u);
}

TEST(Crc32, IsTheStandardsCheckValue) {
  EXPECT_EQ(crc32_of("123456789"), 0xCBF43926U);
  EXPECT_EQ(crc32_of(""), 0U);
}

TEST(Random, GivesTheSameStreamOnAnyMachine) {
  // From an independent implementation of SplitMix64 and xoshiro256**.
  Random random(1234567);
  const std::array<uint64_t, 4> expected = {0x30a3a1c363600467ull, 0x19405f0f579929caull, 0x115beaac046ddbd9ull,
                                            0xeb17caf48f27d7f6ull};
  for (const uint64_t word : expected) EXPECT_EQ(random.next(), word);
}

TEST(Random, DrawsStayInTheirRangeAndReachItsEnds) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::set<int64_t> below;
    std::set<int64_t> between;
    for (int i = 0; i < 500; ++i) {
      below.insert(random.below(5));
      between.insert(random.between(-2, 2));
      const double uniform = random.uniform();
      EXPECT_TRUE(uniform >= 0 && uniform < 1) << uniform;
    }
    EXPECT_EQ(below, (std::set<int64_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(between, (std::set<int64_t>{-2, -1, 0, 1, 2}));
  }
}

TEST(Random, IsRoughlyUniform) {
  Random random(11);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts[static_cast<size_t>(random.below(7))];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500) << "seed 11";  // five standard deviations
}

TEST(Random, TakesTheWidestRanges) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Random random(3);
  EXPECT_EQ(random.between(kMax, kMax), kMax);
  EXPECT_EQ(random.below(1), 0);
  std::set<bool> signs;
  for (int i = 0; i < 100; ++i) signs.insert(random.between(kMin, kMax) < 0);
  EXPECT_EQ(signs.size(), 2u);
  for (int i = 0; i < 100; ++i) EXPECT_GE(random.between(kMin, 0), kMin);
  for (int i = 0; i < 100; ++i) EXPECT_GE(random.below(kMax), 0);
}

TEST(RandomDeathTest, RefusesEmptyRanges) {
  EXPECT_EXIT(Random(1).below(0), testing::ExitedWithCode(70), "CHECK failed: bound > 0");
  EXPECT_EXIT(Random(1).between(1, 0), testing::ExitedWithCode(70), "CHECK failed: lo <= hi");
}

}  // namespace
}  // namespace scalai
