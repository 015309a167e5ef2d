#include "ptc/store/naming/internal/stored_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LocalPart part(const std::string& name, const tensor::Shape& shape) {
  return whole_part({.name = name, .dtype = tensor::DType::kBF16, .shape = shape});
}

std::vector<std::string> described(const absl::StatusOr<ArrangedTensor>& tensor) {
  if (!tensor.ok()) return {message_of(tensor.status())};
  std::vector<std::string> lines = {tensor::Shape(tensor->shape).str()};
  for (const PlacedPiece& piece : tensor->pieces) {
    lines.push_back(piece.logical + piece.piece.box.str() + " at " + std::to_string(piece.piece.offset) + " by");
    for (int dim = 0; dim < piece.piece.box.rank; ++dim)
      lines.back() += " " + std::to_string(piece.piece.strides[static_cast<size_t>(dim)]);
  }
  return lines;
}

TEST(StoredParts, JoinsAndTransposes) {
  const std::vector<LocalPart> parts = {part("a", {2, 3}), part("b", {4, 3})};
  EXPECT_THAT(described(join_parts("x", parts, false)),
              ElementsAre("[6, 3]", "a[0:2, 0:3] at 0 by 3 1", "b[0:4, 0:3] at 6 by 3 1"));
  EXPECT_THAT(described(join_parts("x", parts, true)),
              ElementsAre("[3, 6]", "a[0:2, 0:3] at 0 by 1 6", "b[0:4, 0:3] at 2 by 1 6"));
}

TEST(StoredParts, SelectsRowsByHead) {
  LocalPart fused = part("qkv", {16, 2});  // two groups of two queries, heads of two rows
  fused.groups = {.queries = 2, .head_dim = 2};
  fused.rows = Rows::kQuery;
  EXPECT_THAT(described(join_parts("q", std::span(&fused, 1), false)),
              ElementsAre("[8, 2]", "qkv[0:4, 0:2] at 0 by 2 1", "qkv[8:12, 0:2] at 8 by 2 1"));
  fused.rows = Rows::kValue;
  EXPECT_THAT(described(join_parts("v", std::span(&fused, 1), false)),
              ElementsAre("[4, 2]", "qkv[6:8, 0:2] at 0 by 2 1", "qkv[14:16, 0:2] at 4 by 2 1"));
  fused.rows = Rows::kKey;
  fused.rotary = Rotary::kInterleaved;
  EXPECT_THAT(described(join_parts("k", std::span(&fused, 1), true)),
              ElementsAre("[2, 4]", "qkv[4:5, 0:2] at 0 by 2 4", "qkv[5:6, 0:2] at 1 by 2 4",
                          "qkv[12:13, 0:2] at 2 by 2 4", "qkv[13:14, 0:2] at 3 by 2 4"));
  fused.groups = {.queries = 2, .head_dim = 1};
  EXPECT_THAT(described(join_parts("k", std::span(&fused, 1), false)),
              ElementsAre("tensor \"qkv\": heads of 1 rows cannot be interleaved"));
}

TEST(StoredParts, InterleavesInsideAFusedTensor) {
  LocalPart fused = part("qkv", {6, 1});
  fused.groups = {.queries = 1, .head_dim = 2};
  fused.rotary = Rotary::kInterleaved;
  fused.groups.head_dim = 2;
  EXPECT_THAT(described(join_parts("x", std::span(&fused, 1), false)),
              ElementsAre("[6, 1]", "qkv[0:1, 0:1] at 0 by 2 1", "qkv[1:2, 0:1] at 1 by 2 1",
                          "qkv[2:3, 0:1] at 2 by 2 1", "qkv[3:4, 0:1] at 3 by 2 1", "qkv[4:6, 0:1] at 4 by 1 1"));
}

TEST(StoredParts, ABufferOfPaddingHasNoPieces) {
  const tensor::Layout layout{{{.axis = "tp", .dim = 0, .rule = tensor::SplitRule::kPadded, .multiple = 4}}};
  const LogicalState state{.name = "v", .shape = {5, 2}};
  const tensor::AxisPosition third{.size = 4, .coordinate = 2};
  const LocalPart local = local_part(state, layout, std::span(&third, 1));
  EXPECT_THAT(local.shape, ElementsAre(4, 2));
  EXPECT_TRUE(local.pieces.empty());
  EXPECT_THAT(described(join_parts("v", std::span(&local, 1), false)), ElementsAre("[4, 2]"));
}

TEST(StoredParts, PartsBeginBehindThePaddingOfOthers) {
  const tensor::Layout layout{{{.axis = "tp", .dim = 0, .rule = tensor::SplitRule::kPadded, .multiple = 4}}};
  const tensor::AxisPosition second{.size = 2, .coordinate = 1};
  std::vector<LocalPart> parts;
  for (const char* name : {"a", "b"})
    parts.push_back(local_part({.name = name, .shape = {5, 2}}, layout, std::span(&second, 1)));
  EXPECT_THAT(described(join_parts("x", parts, false)),
              ElementsAre("[8, 2]", "a[4:5, 0:2] at 0 by 2 1", "b[4:5, 0:2] at 8 by 2 1"));
}

TEST(StoredParts, RefusesPartsThatDiffer) {
  std::vector<LocalPart> parts = {part("a", {2, 3}), part("b", {2, 4})};
  EXPECT_THAT(described(join_parts("x", parts, false))[0],
              HasSubstr("\"x\" cannot hold tensor \"b\" box [0:2, 0:4] beside tensor \"a\" box [0:2, 0:3]"));
  parts = {part("a", {}), part("b", {})};
  EXPECT_THAT(described(join_parts("x", parts, false)), ElementsAre("\"x\" cannot hold several scalars"));
  parts = {part("a", {4}), part("b", {4})};
  parts[0].flat = parts[1].flat = true;
  EXPECT_THAT(described(join_parts("x", parts, false)), ElementsAre("[8]", "a[0:4] at 0 by 1", "b[0:4] at 4 by 1"));
  EXPECT_THAT(described(join_parts("x", parts, true))[0], HasSubstr("is a flat shard"));
  parts[1].flat = false;
  EXPECT_THAT(described(join_parts("x", parts, false))[0], HasSubstr("cut differently"));
}

}  // namespace
}  // namespace scalai::store::internal
