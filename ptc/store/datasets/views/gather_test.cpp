#include "ptc/store/datasets/views/internal/gather.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/store/datasets/views/testing/test_dataset.h"

namespace scalai::datasets::internal {
namespace {

using testing::HasSubstr;

class GatherTest : public FolderTest {
 protected:
  GatherTest() {
    Random random(3);
    dataset_ = make_dataset(next_folder(), {.format = Format::kFixed, .documents = 60, .files = 3}, random);
    for (int file = 0; file < 3; ++file) {
      contents_.push_back(*read_all(**open_file_source(dataset_.files[static_cast<size_t>(file)])));
    }
    files_ = std::make_unique<DataFiles>(dataset_.index, counting_opener(reads_));
  }

  // The pieces one after the other, by hand.
  std::string expected(const std::vector<Extent>& pieces) const {
    std::string text;
    for (const Extent& piece : pieces) {
      text += contents_[static_cast<size_t>(piece.file)].substr(static_cast<size_t>(piece.offset),
                                                                static_cast<size_t>(piece.bytes));
    }
    return text;
  }
  std::string gathered(const std::vector<Extent>& pieces) const {
    std::string text(expected(pieces).size(), '?');
    Gather gather(*files_, std::as_writable_bytes(std::span(text)));
    for (size_t i = 0; i < pieces.size(); ++i) {
      const absl::Status added = gather.add(pieces[i], static_cast<int64_t>(i));
      if (!added.ok()) return failure(added, gather);
    }
    const absl::Status finished = gather.finish();
    return finished.ok() ? text : failure(finished, gather);
  }
  static std::string failure(const absl::Status& status, const Gather& gather) {
    return fmt::format("{} to {}: {}", gather.first_sample(), gather.last_sample(), message_of(status));
  }

  TestDataset dataset_;
  std::vector<std::string> contents_;
  std::shared_ptr<int64_t> reads_ = std::make_shared<int64_t>(0);
  std::unique_ptr<DataFiles> files_;
};

TEST_F(GatherTest, RandomPiecesLieOneAfterTheOther) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<Extent> pieces;
    for (int64_t i = random.between(1, 12); i > 0; --i) {
      Extent piece = {static_cast<int>(random.below(3)), random.below(200), random.between(0, 40)};
      if (!pieces.empty() &&
          random.below(3) > 0) {  // near the one before: touching, overlapping, inside or after a hole
        const Extent& last = pieces.back();
        piece.file = last.file;
        piece.offset = std::clamp<int64_t>(last.offset + last.bytes + random.between(-12, 3), 0, 200);
      }
      pieces.push_back(piece);
    }
    ASSERT_EQ(gathered(pieces), expected(pieces));
  }
}

TEST_F(GatherTest, PiecesThatTouchOrOverlapAreOneRead) {
  for (const int file : {0, 1, 2}) ASSERT_TRUE(files_->source(file).ok());  // which reads their edges
  *reads_ = 0;
  const std::vector<Extent> touching = {{0, 10, 20}, {0, 30, 5}, {0, 35, 0}, {0, 35, 15}};
  EXPECT_EQ(gathered(touching), expected(touching));
  EXPECT_EQ(*reads_, 1);
  const std::vector<Extent> windows = {{1, 0, 18}, {1, 16, 18}, {1, 32, 18}, {1, 48, 18}};
  EXPECT_EQ(gathered(windows), expected(windows));
  EXPECT_EQ(*reads_, 2);
  const std::vector<Extent> apart = {{1, 0, 18}, {1, 19, 10}, {2, 29, 10}, {1, 39, 10}, {1, 0, 10}};
  EXPECT_EQ(gathered(apart), expected(apart));
  EXPECT_EQ(*reads_, 2 + 5);
}

TEST_F(GatherTest, AFailureTellsTheSamplesOfItsRead) {
  ASSERT_TRUE(files_->source(1).ok());
  std::filesystem::resize_file(dataset_.files[1], 100);
  const std::vector<Extent> pieces = {{0, 0, 5}, {1, 0, 5}, {1, 5, 5}, {0, 5, 5}};
  EXPECT_THAT(gathered(pieces), HasSubstr("1 to 2: "));
  EXPECT_THAT(gathered(pieces), HasSubstr("1.bin: was cut to 100 of its 240 bytes"));
}

}  // namespace
}  // namespace scalai::datasets::internal
