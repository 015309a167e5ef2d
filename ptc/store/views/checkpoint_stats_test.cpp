// Statistics are those of the elements, in any layout, on any number of threads.
#include "ptc/store/views/checkpoint_stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ptc/store/views/testing/checkpoint_folder.h"

namespace scalai::store {
namespace checkpoint_stats_test {

class CheckpointStats : public CheckpointFolder {
 protected:
  static std::vector<TensorStats> all(const Checkpoint& checkpoint, const StatsOptions& options = {}) {
    std::vector<size_t> tensors(checkpoint.tensors().size());
    std::iota(tensors.begin(), tensors.end(), size_t{0});
    const auto stats = stats_of(checkpoint, tensors, options);
    SCALAI_CHECK(stats.ok(), message_of(stats.status()));
    return *stats;
  }
  static void expect_same(const TensorStats& a, const TensorStats& b) {
    EXPECT_EQ(a.elements.elements, b.elements.elements);
    EXPECT_EQ(a.elements.sum, b.elements.sum);
    EXPECT_EQ(a.elements.squares, b.elements.squares);
    EXPECT_EQ(a.elements.min, b.elements.min);
    EXPECT_EQ(a.elements.max, b.elements.max);
    EXPECT_EQ(a.elements.magnitudes, b.elements.magnitudes);
  }
};

TEST_F(CheckpointStats, AreOfTheBytesInAnyLayoutAndOnAnyThreads) {
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 3, /*finite=*/true);
  reshard_to("hf", "ranks", "tp4,pp2");
  const auto hf = open("hf"), ranks = open("ranks");
  const std::vector<TensorStats> whole = all(*hf), cut = all(*ranks, {.since = nullptr, .threads = 4, .progress = {}});
  ASSERT_EQ(whole.size(), hf->tensors().size());
  ASSERT_EQ(cut.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    const LogicalState& state = hf->tensors()[i];
    SCOPED_TRACE(state.name);
    EXPECT_EQ(ranks->tensors()[i].name, state.name);
    expect_same(whole[i], cut[i]);
    std::vector<std::byte> bytes(static_cast<size_t>(state.shape.elements() * tensor::size_of(state.dtype)));
    ASSERT_TRUE(hf->read(i, tensor::Box::whole(state.shape), bytes).ok());
    const tensor::ElementStats plain = tensor::stats_of(state.dtype, state.shape.elements(), bytes.data());
    EXPECT_EQ(whole[i].elements.magnitudes, plain.magnitudes);
    EXPECT_NEAR(whole[i].elements.squares, plain.squares, 1e-12 * plain.squares);
    EXPECT_FALSE(whole[i].change);
  }
}

// 3 Mi elements are three chunks; their sums are added in order.
TEST_F(CheckpointStats, LargeTensorsAreSeveralChunks) {
  const int64_t rows = 3 * 1024;
  Random random(5);
  std::vector<std::byte> bytes = random_bytes(random, rows * 1024 * 2);
  for (size_t i = 1; i < bytes.size(); i += 2) bytes[i] &= std::byte{0xbf};
  const std::vector<TensorSpec> specs = {{"w", tensor::DType::kBF16, {rows, 1024}}};
  ASSERT_TRUE(write_safetensors(path("one.safetensors"), specs, {}, [&](const StoredTensor&) {
                return absl::StatusOr<std::span<const std::byte>>(bytes);
              }).ok());
  const auto one = open("one.safetensors");
  int64_t last = 0;
  const auto note = [&](int64_t done, int64_t total) { last = done == total ? total : last; };
  const std::vector<TensorStats> alone = all(*one),
                                 many = all(*one, {.since = nullptr, .threads = 3, .progress = note});
  expect_same(alone[0], many[0]);
  EXPECT_EQ(last, std::ssize(bytes));
  EXPECT_EQ(alone[0].elements.elements, rows * 1024);
}

TEST_F(CheckpointStats, SinceAnotherCheckpointInAnotherLayout) {
  write_hugging_face(path("before"), llama_config(8, 4), {}, 3, /*finite=*/true);
  reshard_to("before", "ranks", "tp2");
  const auto before = open("before"), ranks = open("ranks");
  for (const TensorStats& stats : all(*ranks, {.since = before.get(), .threads = 2, .progress = {}})) {
    ASSERT_TRUE(stats.change);
    EXPECT_EQ(stats.change->elements, stats.elements.elements);
    EXPECT_EQ(stats.change->changed, 0);
  }
  write_hugging_face(path("after"), llama_config(8, 4), {}, 4, /*finite=*/true);
  const auto after = open("after");
  for (const TensorStats& stats : all(*after, {.since = ranks.get(), .threads = 2, .progress = {}})) {
    ASSERT_TRUE(stats.change);
    EXPECT_GT(stats.change->changed, stats.elements.elements / 2);
    EXPECT_GT(stats.change->norm(), 0);
  }
  // A model of another size has no such tensors.
  write_hugging_face(path("other"), gpt2_config(1000), {}, 4, /*finite=*/true);
  const auto other = open("other");
  for (const TensorStats& stats : all(*after, {.since = other.get(), .threads = 1, .progress = {}}))
    EXPECT_FALSE(stats.change && after->tensors()[stats.tensor].shape.rank() > 1);
}

}  // namespace checkpoint_stats_test
}  // namespace scalai::store
