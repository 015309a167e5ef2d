#include "ptc/store/datasets/views/internal/idx_image.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/store/datasets/views/testing/test_dataset.h"

namespace scalai::datasets::internal {
namespace {

class IdxImageTest : public FolderTest {
 protected:
  // The image and what it should be, for these samples of the dataset in this order.
  void make(const TestDataset& dataset, int64_t sequence, const std::vector<int64_t>& numbers) {
    const std::vector<TestSample> samples = samples_of(dataset, sequence);
    const auto of_index = *Samples::make(dataset.index, sequence);
    auto table = std::make_shared<ShardTable>();
    table->samples = numbers;
    table->bytes_each = of_index->bytes_each();
    std::vector<TestSample> chosen;
    int64_t bytes = 0, sequences = 0;
    for (const int64_t number : numbers) {
      chosen.push_back(samples[static_cast<size_t>(number)]);
      table->ends.push_back(bytes += static_cast<int64_t>(chosen.back().bytes.size()));
      table->sequence_ends.push_back(sequences += static_cast<int64_t>(chosen.back().lengths.size()));
    }
    expected_ = idx_of(chosen);
    image_ = make_idx_image({.name = "shard.idx", .samples = of_index, .files = nullptr, .table = table});
  }

  std::string expected_;
  ByteSourcePtr image_;
};

TEST_F(IdxImageTest, AnyPartIsThatOfThePublishedFormat) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const TestDataset dataset = make_dataset(
        next_folder(), {.format = Format::kMegatron, .documents = 30, .files = 2, .most_sequences = 5}, random);
    const int64_t sequence = seed % 3 == 0 ? random.between(1, 20) : 0;
    std::vector<int64_t> numbers;
    const auto count = static_cast<int64_t>(samples_of(dataset, sequence).size());
    for (int64_t i = random.between(1, 40); i > 0; --i) numbers.push_back(random.below(count));
    make(dataset, sequence, numbers);
    const auto size = static_cast<int64_t>(expected_.size());
    ASSERT_EQ(image_->size(), size);
    ASSERT_EQ(*read_all(*image_), expected_);
    for (int i = 0; i < 500; ++i) {
      const int64_t at = random.between(0, size);
      const int64_t bytes = random.between(0, std::min<int64_t>(size - at, random.below(2) == 0 ? 12 : size));
      ASSERT_EQ(read_text(*image_, at, bytes), expected_.substr(static_cast<size_t>(at), static_cast<size_t>(bytes)))
          << at << " " << bytes;
    }
  }
}

// More entries than are computed at a time, and a document that is longer than that.
TEST_F(IdxImageTest, ManySequencesInADocument) {
  Random random(5);
  const TestDataset dataset = make_dataset(
      next_folder(), {.format = Format::kMegatron, .documents = 3, .most_bytes = 2, .most_sequences = 60000}, random);
  make(dataset, 0, {2, 0, 2, 1});
  ASSERT_GT(expected_.size(), 12u * 20000u);
  EXPECT_EQ(*read_all(*image_), expected_);
}

}  // namespace
}  // namespace scalai::datasets::internal
