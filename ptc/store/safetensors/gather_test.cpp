#include "ptc/store/safetensors/internal/gather.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/store/safetensors/testing/test_job.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"

namespace scalai::store {
namespace {

using tensor::Box;
using tensor::Shape;

TEST(Runs, AreAsLongAsBothSidesAllow) {
  const Box stored({0, 0, 0}, {4, 6, 8});
  EXPECT_EQ(runs_of(stored, stored, stored).count, 1);
  EXPECT_EQ(runs_of(stored, stored, stored).elements, 192);
  const Box rows({1, 0, 0}, {3, 6, 8});
  EXPECT_EQ(runs_of(stored, rows, rows).count, 1);
  const Box middle({1, 2, 0}, {3, 4, 8});
  EXPECT_EQ(runs_of(stored, middle, middle).count, 2);
  EXPECT_EQ(runs_of(stored, middle, middle).elements, 16);
  const Box columns({0, 0, 3}, {4, 6, 5});
  EXPECT_EQ(runs_of(stored, columns, columns).count, 24);
  EXPECT_EQ(runs_of(Box(), Box(), Box()).elements, 1);
}

class GatherTest : public FolderTest {
 protected:
  // Writes a tensor whose bytes are content_of(), and opens it.
  SafetensorsFile file_of(const collection::LogicalTensor& tensor, const Box& stored) const {
    const std::vector<std::byte> bytes = content_of(tensor, TensorId(1), stored);
    std::vector<int64_t> shape;
    for (int dim = 0; dim < stored.rank; ++dim) shape.push_back(stored.extent(dim));
    SCALAI_CHECK(write_safetensors(path("f"), {{"t", tensor.dtype, shape}}, {},
                                   [&](const StoredTensor&) -> absl::StatusOr<std::span<const std::byte>> {
                                     return std::span<const std::byte>(bytes);
                                   })
                     .ok());
    absl::StatusOr<SafetensorsFile> file = SafetensorsFile::open(path("f"));
    SCALAI_CHECK(file.ok());
    return *std::move(file);
  }

  // Every element of the common part is in its place, and nothing else was touched.
  void expect_gathered(const collection::LogicalTensor& tensor, const Box& stored, const Box& wanted) const {
    const SafetensorsFile file = file_of(tensor, stored);
    const std::optional<Box> common = intersect(stored, wanted);
    ASSERT_TRUE(common);
    const auto size = static_cast<size_t>(tensor::size_of(tensor.dtype));
    const std::vector<std::byte> untouched(static_cast<size_t>(wanted.volume()) * size, std::byte{0xAA});
    std::vector<std::byte> got = untouched;
    ASSERT_TRUE(read_common(file, *file.find("t"), stored, wanted, *common, got).ok());
    std::vector<std::byte> expected = content_of(tensor, TensorId(1), wanted);
    for (const Box& outside : subtract(wanted, *common)) {
      ASSERT_TRUE(for_each_run(outside, wanted, outside, [&](const store::Run& run) {
                    const auto at = static_cast<size_t>(run.dst) * size;
                    const auto n = static_cast<size_t>(runs_of(outside, wanted, outside).elements) * size;
                    std::copy_n(untouched.begin(), n, expected.begin() + static_cast<std::ptrdiff_t>(at));
                    return absl::OkStatus();
                  }).ok());
    }
    EXPECT_TRUE(got == expected);
  }
};

TEST_F(GatherTest, GathersAnyBoxFromAnyOther) {
  int common_boxes = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<int64_t> extents;
    for (int64_t d = random.below(6); d > 0; --d) extents.push_back(random.between(1, 6));
    collection::LogicalTensor tensor;
    tensor.shape = Shape(extents);
    tensor.dtype = random.below(2) == 0 ? tensor::DType::kF32 : tensor::DType::kBF16;
    const Box stored = random_box(random, tensor.shape);
    const Box wanted = random_box(random, tensor.shape);
    SCOPED_TRACE(fmt::format("{} from {} of {}", wanted.str(), stored.str(), tensor.shape.str()));
    if (!intersect(stored, wanted)) continue;
    ++common_boxes;
    expect_gathered(tensor, stored, wanted);
  }
  EXPECT_GT(common_boxes, 100);
}

// Sizes at which runs are read one by one, by blocks, and over the end of a block.
TEST_F(GatherTest, GathersLongFarAndManyShortRuns) {
  collection::LogicalTensor tensor;
  tensor.dtype = tensor::DType::kU8;
  tensor.shape = Shape({4, 200'000});
  expect_gathered(tensor, Box::whole(tensor.shape), Box({0, 50'000}, {4, 150'000}));
  expect_gathered(tensor, Box::whole(tensor.shape), Box({0, 50'000}, {4, 50'010}));
  tensor.shape = Shape({300'000, 12});
  expect_gathered(tensor, Box::whole(tensor.shape), Box({1, 3}, {299'999, 7}));
}

}  // namespace
}  // namespace scalai::store
