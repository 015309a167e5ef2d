#include <gmock/gmock.h>

#include "ptc/state/transform/internal/functions.h"
#include "ptc/state/transform/internal/pairs.h"
#include "ptc/state/transform/testing/memory_state.h"

namespace scalai::transform {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Adapter {
  Other other;
  std::shared_ptr<Stored> a = std::make_shared<Stored>(), b = std::make_shared<Stored>();

  void add(Random& random, const std::string& name, Shape of_a, Shape of_b, DType dtype = DType::kF32) {
    other.tensors.push_back(in_memory(random, name + ".lora_A.weight", dtype, of_a, a));
    other.tensors.push_back(in_memory(random, name + ".lora_B.weight", dtype, of_b, b));
    other.identity = "adapter";
  }
  OpenOther open() const {
    return [this](const std::string&) -> absl::StatusOr<Other> { return other; };
  }
};

double delta(const Adapter& adapter, int64_t rank, int64_t columns, int64_t row, int64_t column) {
  double sum = 0;
  for (int64_t k = 0; k < rank; ++k)
    sum += adapter.b->values[static_cast<size_t>(row * rank + k)] *
           adapter.a->values[static_cast<size_t>(k * columns + column)];
  return sum;
}

TEST(Lora, MergedIsTheProductAdded) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int64_t rows = random.between(1, 20), columns = random.between(1, 20), rank = random.between(1, 5);
    const auto stored = std::make_shared<Stored>();
    const DType dtype = seed % 2 == 0 ? DType::kBF16 : DType::kF32;
    const Tensor tensor = in_memory(random, "x.weight", dtype, Shape{rows, columns}, stored);
    Adapter adapter;
    adapter.add(random, seed % 3 == 0 ? "x" : "base_model.model.x", Shape{rank, columns}, Shape{rows, rank});
    const auto made = transform(steps_of({"lora(adapter, alpha=3)"}), {tensor}, adapter.open());
    ASSERT_TRUE(made.ok()) << made.status();
    std::vector<double> expected = stored->values;
    for (int64_t i = 0; i < rows * columns; ++i) {
      double& value = expected[static_cast<size_t>(i)];
      value = rounded(dtype,
                      value + 3 / static_cast<double>(rank) * delta(adapter, rank, columns, i / columns, i % columns));
    }
    EXPECT_EQ(difference(random, (*made)[0], expected), "");
  }
}

// A tensor of three dimensions, whose planes are rows of two matrices, one of them transposed.
TEST(Lora, PartsOfATensorHavePairsOfTheirOwn) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto stored = std::make_shared<Stored>();
    Tensor tensor = in_memory(random, "fused", DType::kF64, Shape{2, 4, 6}, stored);
    // "up" is [8, 6], of which this is the last four rows; "down" is [6, 4], the transposed plane.
    tensor.parts = {{"up.weight", 8, 6, {.box = Box({0, 0, 0}, {1, 4, 6}), .offset = 24, .strides = {0, 6, 1}}},
                    {"down.weight", 6, 4, {.box = Box({1, 0, 0}, {2, 4, 6}), .offset = 0, .strides = {0, 1, 4}}}};
    Adapter up, down;
    up.add(random, "up", Shape{2, 6}, Shape{8, 2});
    down.add(random, "down", Shape{3, 4}, Shape{6, 3});
    Other both = up.other;
    both.alpha = 6;
    both.rank_stabilised = true;
    both.tensors.insert(both.tensors.end(), down.other.tensors.begin(), down.other.tensors.end());
    const auto made = transform(steps_of({"lora(both)"}), {tensor},
                                [&](const std::string&) -> absl::StatusOr<Other> { return both; });
    ASSERT_TRUE(made.ok()) << made.status();
    std::vector<double> expected = stored->values;
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 6; ++j) {
        expected[static_cast<size_t>(6 * i + j)] += 6 / std::sqrt(2.0) * delta(up, 2, 6, 4 + i, j);
        expected[static_cast<size_t>(24 + 6 * i + j)] += 6 / std::sqrt(3.0) * delta(down, 3, 4, j, i);
      }
    }
    EXPECT_EQ(difference(random, (*made)[0], expected), "");
  }
}

// Rows of B and columns of A, not all of them.
TEST(Lora, ABoxReadsItsRowsAndColumns) {
  Random random(1);
  const auto stored = std::make_shared<Stored>();
  const Tensor tensor = in_memory(random, "x.weight", DType::kF32, Shape{300, 400}, stored);
  Adapter adapter;
  adapter.add(random, "x", Shape{4, 400}, Shape{300, 4});
  const auto made = transform(steps_of({"lora(adapter, alpha=1)"}), {tensor}, adapter.open());
  ASSERT_TRUE(made.ok()) << made.status();
  (void)read((*made)[0], Box({20, 100}, {25, 130}));
  EXPECT_EQ(adapter.a->most_read, 4 * 30);
  EXPECT_EQ(adapter.b->most_read, 4 * 5);
  EXPECT_EQ(stored->most_read, 5 * 30);
}

TEST(Lora, ProblemsOfTheAdapterComeAtOnce) {
  Random random(2);
  const Tensor tensor = in_memory(random, "x.weight", DType::kF32, Shape{4, 5}, std::make_shared<Stored>());
  Adapter adapter;
  adapter.add(random, "x", Shape{2, 6}, Shape{4, 2});
  adapter.add(random, "y", Shape{2, 5}, Shape{4, 2});
  adapter.add(random, "z", Shape{2, 5}, Shape{4, 3});
  adapter.other.tensors.push_back(
      in_memory(random, "q.lora_A.weight", DType::kF32, Shape{2, 5}, std::make_shared<Stored>()));
  adapter.other.tensors.push_back(in_memory(random, "head.bias", DType::kF32, Shape{2}, std::make_shared<Stored>()));
  adapter.other.tensors.push_back(adapter.other.tensors.front());
  const auto made = transform(steps_of({"lora(ad)"}), {tensor}, adapter.open());
  EXPECT_THAT(
      message_of(made.status()),
      AllOf(HasSubstr("lora(ad): ad does not say alpha; lora(ad, alpha=A) does\n"),
            HasSubstr("ad: tensor \"head.bias\" is no lora_A.weight or lora_B.weight, and would be lost\n"),
            HasSubstr("ad: \"x.lora_A.weight\" is there twice\n"), HasSubstr("ad: \"q.weight\" has only lora_A\n"),
            HasSubstr("ad: \"z.weight\" has lora_A [2, 5] and lora_B [4, 3], whose ranks differ\n"),
            HasSubstr("ad: \"x.weight\" has lora_A [2, 6] and lora_B [4, 2], the matrix is [4, 5]\n"),
            HasSubstr("ad: no tensor has the matrix \"y.weight\" of a pair")));
}

}  // namespace
}  // namespace scalai::transform
