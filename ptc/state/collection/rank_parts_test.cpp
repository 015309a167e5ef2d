#include "ptc/state/collection/rank_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ptc/base/status.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::collection {
namespace {

using tensor::Box;
using tensor::Cut;
using tensor::SplitRule;
using testing::ElementsAre;

// tp2, dp2, pp2: ranks are tp + 2·dp + 4·pp.
Collection eight(std::vector<LogicalTensor> tensors) {
  Collection collection{
      .name = "eight", .meshes = {Mesh({{"tp", 2}, {"dp", 2}, {"pp", 2}})}, .tensors = std::move(tensors)};
  for (int device = 0; device < 8; ++device) collection.device_of_rank.emplace_back(device);
  return collection;
}

// What pieces() says of every rank.
void expect_as_pieces(const Collection& collection, TensorId id) {
  std::vector<tensor::LocalBuffer> buffers(static_cast<size_t>(collection.ranks()));
  std::vector<int> seen(buffers.size(), 0);
  int first = -1;
  for (const RankPart& part : rank_parts(collection, id)) {
    ASSERT_FALSE(part.ranks.empty());
    EXPECT_LT(first, part.ranks.front().value);
    first = part.ranks.front().value;
    EXPECT_TRUE(std::is_sorted(part.ranks.begin(), part.ranks.end()));
    for (const LogicalRank rank : part.ranks) {
      buffers[static_cast<size_t>(rank.value)] = part.buffer;
      ++seen[static_cast<size_t>(rank.value)];
    }
  }
  const LogicalTensor& tensor = collection.tensors[static_cast<size_t>(id.value)];
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    const tensor::LocalBuffer wanted = collection.pieces(id, LogicalRank(rank));
    const auto at = static_cast<size_t>(rank);
    EXPECT_EQ(seen[at], collection.holds(tensor, LogicalRank(rank)) ? 1 : 0) << tensor.name << " rank " << rank;
    EXPECT_EQ(buffers[at].pieces, wanted.pieces) << tensor.name << " rank " << rank;
    EXPECT_EQ(buffers[at].elements, wanted.elements) << tensor.name << " rank " << rank;
  }
}

TEST(RankParts, RanksThatHoldTheSameAreOnePart) {
  const Collection collection =
      eight({{.name = "w", .shape = {4, 3}, .layout = {{{.axis = "tp", .dim = 0}}}, .pins = {{"pp", {1}}}}});
  const std::vector<RankPart> parts = rank_parts(collection, TensorId(0));
  ASSERT_EQ(parts.size(), 2u);  // stage 1 is ranks 4 to 7; tp 0 and tp 1 of both replicas
  EXPECT_THAT(parts[0].ranks, ElementsAre(LogicalRank(4), LogicalRank(6)));
  EXPECT_EQ(parts[0].buffer.pieces.at(0).box, Box({0, 0}, {2, 3}));
  EXPECT_THAT(parts[1].ranks, ElementsAre(LogicalRank(5), LogicalRank(7)));
  EXPECT_EQ(parts[1].buffer.pieces.at(0).box, Box({2, 0}, {4, 3}));
}

TEST(RankParts, AsPiecesForAllKindsOfCutsAndPins) {
  const Collection collection = eight({
      {.name = "whole", .shape = {3}},
      {.name = "flat",
       .shape = {5, 3},
       .layout = {{{.axis = "tp", .dim = 0, .rule = SplitRule::kBalanced},
                   {.axis = "dp", .dim = Cut::kFlat, .rule = SplitRule::kBalanced}}}},
      {.name = "joined", .shape = {10}, .layout = {{{.axis = "pp+tp", .dim = 0, .rule = SplitRule::kCeil}}}},
      {.name = "padded",
       .shape = {3},
       .layout = {{{.axis = "tp", .dim = 0, .rule = SplitRule::kPadded, .multiple = 4}}}},
      {.name = "grouped",
       .shape = {4},
       .layout = {{{.axis = "tp+dp", .dim = 0, .rule = SplitRule::kGrouped, .groups = 2}}}},
      {.name = "absent", .shape = {4}, .layout = {{{.axis = "ep", .dim = 0}}}},
      {.name = "corner", .shape = {4}, .pins = {{"pp", {0}}, {"dp", {1}}}},
      {.name = "diagonal", .shape = {4}, .pins = {{"tp+dp", {1, 2}}}},
      {.name = "nobody", .shape = {4}, .pins = {{"ep", {1}}}},
  });
  for (int i = 0; i < 9; ++i) expect_as_pieces(collection, TensorId(i));
}

TEST(RankParts, AsPiecesForAModel) {
  model::Model model{.name = "small", .family = "gpt", .layers = 4, .hidden = 8, .heads = 4, .kv_heads = 4, .ffn = 16};
  model.vocab = 300;
  model.experts = 2;
  model.params.push_back(
      {.name = "embedding", .shape = {300, 8}, .rule = model::TpRule::kVocab, .layer = model::Param::kBothEnds});
  for (int layer = 0; layer < 4; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    model.params.push_back({.name = prefix + ".up", .shape = {16, 8}, .rule = model::TpRule::kColumn, .layer = layer});
    model.params.push_back({.name = prefix + ".expert0",
                            .shape = {8, 16},
                            .rule = model::TpRule::kRow,
                            .layer = layer,
                            .expert = layer % 2});
  }
  std::vector<DeviceId> devices;
  for (int device = 0; device < 8; ++device) devices.emplace_back(device);
  for (const char* layout :
       {"tp2,pp2,dp2,zero1", "tp2,dp4,zero3", "pp4,dp2", "tp2,pp2,vpp2,dp2", "dp4,ep2,pp2,zero1"}) {
    for (const bool buckets : {false, true}) {
      const ParallelConfig config = parse_layout(layout).value();
      if (buckets && config.zero == 3) continue;
      const auto collection =
          megatron_collection(model, {}, config, devices, {.distributed_optimizer_buckets = buckets});
      ASSERT_TRUE(collection.ok()) << layout << ": " << message_of(collection.status());
      for (size_t i = 0; i < collection->tensors.size(); ++i)
        expect_as_pieces(*collection, TensorId(static_cast<int>(i)));
    }
  }
}

TEST(TensorsAlike, WhatDiffersInPlaceIsApart) {
  const tensor::Layout rows = {{{.axis = "tp", .dim = 0}}}, columns = {{{.axis = "tp", .dim = 1}}};
  const Collection collection =
      eight({{.name = "a", .shape = {4, 4}, .layout = rows, .pins = {{"pp", {0}}}},
             {.name = "b", .shape = {4, 4}, .layout = columns, .pins = {{"pp", {0}}}},
             {.name = "c", .shape = {4, 8}, .layout = rows, .pins = {{"pp", {0}}}},
             {.name = "d", .shape = {4, 4}, .layout = rows, .pins = {{"pp", {1}}}},
             {.name = "e", .dtype = tensor::DType::kBF16, .shape = {4, 4}, .layout = rows, .pins = {{"pp", {0}}}}});
  // Only e lies as a does; that it has another type changes nothing.
  EXPECT_THAT(tensors_alike(collection), ElementsAre(ElementsAre(TensorId(0), TensorId(4)), ElementsAre(TensorId(1)),
                                                     ElementsAre(TensorId(2)), ElementsAre(TensorId(3))));
}

}  // namespace
}  // namespace scalai::collection
