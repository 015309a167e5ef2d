#include "ptc/plan/internal/interpreter_holders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "ptc/plan/testing/support.h"

namespace scalai::plan::internal {
namespace {

using tensor::Box;
using Held = std::vector<std::pair<DeviceId, Box>>;

Held by_rank(const collection::Collection& collection, TensorId tensor, const std::set<DeviceId>& lost) {
  Held held;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    const DeviceId device = collection.device_of_rank[static_cast<size_t>(rank)];
    if (lost.contains(device)) continue;
    for (const auto& piece : collection.pieces(tensor, LogicalRank(rank)).pieces) held.emplace_back(device, piece.box);
  }
  std::sort(held.begin(), held.end());
  return held;
}

// Tensors of two meshes, cut and pinned over different axes, asked in turn.
TEST(InterpreterHolders, AgreeWithThePiecesOfEveryRank) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes sizes = random_sizes(random, 24);
    const cluster::Cluster cluster = cluster_of(6, 4);
    collection::Collection collection = grid_collection(sizes, random_devices(random, sizes.world(), 24));
    collection.meshes.push_back(collection::Mesh({{"dp", sizes.dp}, {"pp", sizes.pp}, {"tp", sizes.tp}}));
    for (size_t i = 0; i < collection.tensors.size(); ++i) {
      collection::LogicalTensor& tensor = collection.tensors[i];
      tensor.mesh = static_cast<int>(random.below(2));
      if (i % 2 == 0 && tensor.shape.rank() > 0) tensor.layout.cuts.push_back(cut_over("dp", tensor::Cut::kFlat));
      if (i % 5 == 0 && tensor.shape.rank() > 0) tensor.layout.cuts = {cut_over("tp+dp", 0)};
    }
    std::set<DeviceId> lost;
    for (int i = 0; i < 3; ++i) lost.insert(DeviceId(random.below(24)));
    Holders holders(collection, lost, cluster);
    for (size_t i = 0; i < collection.tensors.size(); ++i) {
      const TensorId id(static_cast<int64_t>(i));
      Held held;
      for (const Holders::Part& part : holders.parts_of(id)) {
        std::set<HostId> hosts;
        for (const DeviceId device : holders.group(part.group).devices) {
          held.emplace_back(device, part.box);
          hosts.insert(cluster.host_of(device));
        }
        EXPECT_EQ(holders.group(part.group).hosts, std::vector<HostId>(hosts.begin(), hosts.end()));
      }
      std::sort(held.begin(), held.end());
      EXPECT_EQ(held, by_rank(collection, id, lost)) << collection.tensors[i].name;
    }
  }
}

}  // namespace
}  // namespace scalai::plan::internal
