#include "ptc/store/views/internal/bucket_params.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace bucket_params_test {

// What lies at each element of a stored tensor: the logical tensor and the place in it.
std::map<int64_t, std::string> elements(const std::vector<PlacedPiece>& pieces) {
  std::map<int64_t, std::string> found;
  for (const PlacedPiece& placed : pieces) {
    const tensor::Piece& piece = placed.piece;
    std::vector<int64_t> at(piece.box.lo.begin(), piece.box.lo.begin() + piece.box.rank);
    for (int64_t left = piece.box.volume(); left > 0; --left) {
      int64_t flat = piece.offset;
      for (size_t d = 0; d < at.size(); ++d) flat += (at[d] - piece.box.lo[d]) * piece.strides[d];
      EXPECT_TRUE(found.emplace(flat, fmt::format("{}{}", placed.logical, fmt::join(at, ","))).second) << "twice";
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < piece.box.hi[d]) break;
        at[d] = piece.box.lo[d];
      }
    }
  }
  return found;
}

TEST(PiecesOfStretch, AreThePiecesOfItsElements) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    std::vector<int64_t> shape;
    int64_t total = 1;
    for (int64_t dims = random.between(1, 3); dims > 0; --dims) {
      shape.push_back(random.between(1, 6));
      total *= shape.back();
    }
    // Two halves of its rows are of different tensors, and the last row may be padding.
    const int64_t rows = shape.front(), half = rows / 2, used = std::max<int64_t>(1, rows - random.below(2));
    ArrangedTensor stored{.name = "w", .shape = shape, .pieces = {}};
    const auto piece = [&](const char* logical, int64_t from, int64_t to) {
      std::vector<int64_t> extents = shape;
      extents.front() = to - from;
      const tensor::Shape box{std::span(extents)};
      if (from < to)
        stored.pieces.push_back({logical, {tensor::Box::whole(box), from * (total / rows), box.strides()}});
    };
    piece("a", 0, std::min(half, used));
    piece("b", half, used);
    const std::map<int64_t, std::string> whole = elements(stored.pieces);
    const int64_t begin = random.below(total), end = random.between(begin + 1, total);
    const auto found = pieces_of_stretch(stored, begin, end);
    ASSERT_TRUE(found.ok()) << message_of(found.status());
    std::map<int64_t, std::string> expected;
    for (const auto& [flat, place] : whole) {
      if (begin <= flat && flat < end) expected[flat - begin] = place;
    }
    EXPECT_EQ(elements(*found), expected);
  }
}

}  // namespace bucket_params_test
}  // namespace scalai::store::internal
