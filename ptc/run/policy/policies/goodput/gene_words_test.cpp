#include "ptc/run/policy/policies/goodput/gene_words.h"

#include <gtest/gtest.h>

#include <vector>

#include "ptc/base/random.h"

namespace scalai::policy::gene_words {
namespace {

// Against byte by byte, on words of every mixture of zeros and ones, and of random bytes.
TEST(GeneWords, AreEightGenes) {
  Random random(1);  // seed 1
  for (int round = 0; round < 20'000; ++round) {
    uint64_t word = random.next();
    for (size_t k = 0; k < 8; ++k) {
      if (random.below(2) == 0) word = with_gene(word, k, static_cast<int>(random.below(3)) * 127);
    }
    int total = 0, there = 0;
    uint64_t bytes = 0;
    std::vector<size_t> places;
    for (size_t k = 0; k < 8; ++k) {
      const int one = gene(word, k);
      total += one;
      there += one > 0 ? 1 : 0;
      bytes |= one > 0 ? uint64_t{0xff} << (8 * k) : 0;
      if (one > 0) places.push_back(k);
    }
    ASSERT_EQ(sum(word), total) << word;
    ASSERT_EQ(count(nonzero(word)), there) << word;
    ASSERT_EQ(whole(nonzero(word)), bytes) << word;
    std::vector<size_t> visited;
    each(nonzero(word), [&](size_t k) { visited.push_back(k); });
    ASSERT_EQ(visited, places) << word;
  }
  EXPECT_EQ(sum(~uint64_t{0}), 8 * 255);
  Columns columns;
  for (int k = 0; k < 256; ++k) columns.add(0xff00010203040506ULL);
  EXPECT_EQ(columns.at(0), 256 * 6);
  EXPECT_EQ(columns.at(5), 256);
  EXPECT_EQ(columns.at(6), 0);
  EXPECT_EQ(columns.at(7), 256 * 255);
}

}  // namespace
}  // namespace scalai::policy::gene_words
