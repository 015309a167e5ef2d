#include "ptc/store/datasets/samples.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two Megatron files of int32: a has documents of 5 + 3 and 2 tokens, b of 0, 7 and 4.
class MegatronSamples : public testing::Test {
 protected:
  MegatronSamples() {
    folder_.write("a.bin", test::tokens_bytes(0, 10));
    folder_.write("a.idx", test::idx_bytes(4, 4, {5, 3, 2}, {2, 1}));
    folder_.write("b.bin", test::tokens_bytes(10, 11));
    folder_.write("b.idx", test::idx_bytes(4, 4, {7, 4}, {0, 1, 1}));
    const auto built = build_index({.files = {folder_.path("a"), folder_.path("b.bin")}, .out = folder_.path("index")});
    EXPECT_TRUE(built.ok()) << built.status();
    index_ = Index::open(folder_.path("index")).value();
  }
  test::TempFolder folder_;
  std::shared_ptr<const Index> index_;
};

std::vector<Extent> extents_of(const Samples& samples, int64_t i) {
  std::vector<Extent> extents;
  EXPECT_TRUE(samples.extents(i, extents).ok());
  return extents;
}

std::vector<int32_t> lengths_of(const Samples& samples, int64_t i) {
  std::vector<int32_t> lengths;
  EXPECT_TRUE(samples.sequence_lengths(i, lengths).ok());
  return lengths;
}

TEST_F(MegatronSamples, WithoutSequenceAreDocuments) {
  const auto samples = Samples::make(index_).value();
  ASSERT_EQ(samples->count(), 5);
  EXPECT_EQ(samples->sequence(), 0);
  EXPECT_EQ(samples->tokens_dropped(), 0);
  EXPECT_EQ(samples->bytes_each(), 0);
  EXPECT_THAT(extents_of(*samples, 0), ElementsAre(Extent{0, 0, 32}));
  EXPECT_THAT(extents_of(*samples, 1), ElementsAre(Extent{0, 32, 8}));
  EXPECT_THAT(extents_of(*samples, 2), ElementsAre(Extent{1, 0, 0}));
  EXPECT_THAT(extents_of(*samples, 4), ElementsAre(Extent{1, 28, 16}));
  EXPECT_THAT(lengths_of(*samples, 0), ElementsAre(5, 3));
  EXPECT_THAT(lengths_of(*samples, 2), ElementsAre());
  EXPECT_EQ(samples->bytes(0).value(), 32);
  EXPECT_EQ(samples->tokens(0).value(), 8);
  EXPECT_EQ(samples->name(4), "document 4");
}

TEST_F(MegatronSamples, WindowsSpanDocumentsAndFiles) {
  const auto samples = Samples::make(index_, 4).value();  // 21 tokens: 5 windows of 5, nothing is left
  ASSERT_EQ(samples->count(), 5);
  EXPECT_EQ(samples->tokens_dropped(), 0);
  EXPECT_THAT(extents_of(*samples, 0), ElementsAre(Extent{0, 0, 20}));
  EXPECT_THAT(extents_of(*samples, 1), ElementsAre(Extent{0, 16, 20}));
  EXPECT_THAT(extents_of(*samples, 2), ElementsAre(Extent{0, 32, 8}, Extent{1, 0, 12}));
  EXPECT_THAT(extents_of(*samples, 4), ElementsAre(Extent{1, 24, 20}));
  EXPECT_THAT(lengths_of(*samples, 2), ElementsAre(5));
  EXPECT_EQ(samples->bytes(2).value(), 20);
  EXPECT_EQ(samples->tokens(2).value(), 5);
  EXPECT_EQ(samples->bytes_each(), 20);
  EXPECT_EQ(samples->name(3), "window 3");
}

// For every N: windows as a walk over an array of the tokens has them.
TEST_F(MegatronSamples, WindowsOfEveryLength) {
  for (int64_t n = 1; n <= 20; ++n) {
    const auto samples = Samples::make(index_, n).value();
    int64_t count = 0, end = 0;
    for (int64_t begin = 0; begin + n + 1 <= 21; begin += n) {
      std::vector<int64_t> tokens;  // by their bytes: token t lies at 4 t of a, or 4 (t - 10) of b
      for (const Extent& extent : extents_of(*samples, count)) {
        for (int64_t at = extent.offset; at < extent.offset + extent.bytes; at += 4)
          tokens.push_back(at / 4 + extent.file * 10);
      }
      ASSERT_EQ(static_cast<int64_t>(tokens.size()), n + 1) << n;
      for (int64_t t = 0; t <= n; ++t) ASSERT_EQ(tokens[static_cast<size_t>(t)], begin + t) << n;
      ++count;
      end = begin + n + 1;
    }
    EXPECT_EQ(samples->count(), count) << n;
    EXPECT_EQ(samples->tokens_dropped(), 21 - end) << n;
  }
}

TEST_F(MegatronSamples, SequencesThatDoNotFitAreRefused) {
  EXPECT_THAT(message_of(Samples::make(index_, 21).status()),
              HasSubstr("has 21 tokens, and one sample of sequence 21 takes 22"));
  EXPECT_THAT(message_of(Samples::make(index_, -1).status()), HasSubstr("a sequence has 1 to"));
  EXPECT_THAT(message_of(Samples::make(index_, int64_t{1} << 31).status()), HasSubstr("a sequence has 1 to"));
}

TEST(Samples, OfOtherFormatsAreDocumentsOnly) {
  const test::TempFolder folder;
  folder.write("f", std::string(70, 'x'));
  ASSERT_TRUE(
      build_index({.format = Format::kFixed, .files = {folder.path("f")}, .out = folder.path("i"), .record_bytes = 7})
          .ok());
  const auto index = Index::open(folder.path("i")).value();
  EXPECT_THAT(message_of(Samples::make(index, 4).status()), HasSubstr("a fixed dataset has no tokens"));
  const auto samples = Samples::make(index).value();
  EXPECT_EQ(samples->count(), 10);
  EXPECT_EQ(samples->bytes_each(), 7);
  EXPECT_EQ(samples->tokens(3).value(), 0);
  EXPECT_THAT(lengths_of(*samples, 3), ElementsAre());
  EXPECT_THAT(extents_of(*samples, 9), ElementsAre(Extent{0, 63, 7}));
}

}  // namespace
}  // namespace scalai::datasets
