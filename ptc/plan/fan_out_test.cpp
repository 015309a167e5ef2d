#include "ptc/plan/internal/fan_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ptc/plan/internal/spread.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan::internal {
namespace {

std::vector<DeviceId> numbers(std::initializer_list<int> list) {
  std::vector<DeviceId> devices;
  for (const int i : list) devices.emplace_back(i);
  return devices;
}

std::vector<Leg> distribute(const cluster::Cluster& cluster, std::initializer_list<int> holders,
                            std::initializer_list<int> wanting) {
  const PlannerOptions options;
  return FanOut(cluster, options).distribute(by_host(numbers(holders), cluster), by_host(numbers(wanting), cluster), 1);
}

std::string text(const std::vector<Leg>& legs) {
  std::string all;
  for (const Leg& leg : legs) {
    all += leg.src.str() + ">g" + std::to_string(leg.dst.value) + "@" + std::to_string(leg.hop) + " ";
  }
  return all;
}

TEST(FanOut, ABoxCrossesOnceAndIsPassedOnInside) {
  EXPECT_EQ(text(distribute(cluster_of(2, 4), {0}, {4, 5, 6})), "g0>g4@0 g4>g5@1 g5>g6@2 ");
}

// All four GPUs of the host receive every box; each NIC takes in one of four.
TEST(FanOut, BoxesEnterAHostByTheNicThatHasTakenInLeast) {
  const cluster::Cluster cluster = cluster_of(2, 4);
  const PlannerOptions options;
  FanOut fan_out(cluster, options);
  const DevicesByHost holders = by_host(numbers({0}), cluster), wanting = by_host(numbers({4, 5, 6, 7}), cluster);
  for (const int entry : {4, 5, 6, 7}) {
    const std::vector<Leg> legs = fan_out.distribute(holders, wanting, 10);
    EXPECT_EQ(legs.front().dst, DeviceId(entry)) << text(legs);
    EXPECT_EQ(legs.size(), 4u);
  }
  EXPECT_EQ(fan_out.loads().entered, (std::vector<int64_t>{0, 0, 0, 0, 10, 10, 10, 10}));
}

TEST(FanOut, HostsFormAChain) {
  EXPECT_EQ(text(distribute(cluster_of(4, 1), {0}, {1, 2, 3})), "g0>g1@0 g1>g2@1 g2>g3@2 ");
  EXPECT_EQ(text(distribute(cluster_of(4, 1), {0, 1}, {2, 3})), "g0>g2@0 g1>g3@0 ");
}

TEST(FanOut, AHolderOnTheHostServesItAndNothingCrosses) {
  EXPECT_EQ(text(distribute(cluster_of(2, 4), {0, 4}, {1, 5})), "g0>g1@0 g4>g5@0 ");
}

TEST(FanOut, WithoutRelayEachFetchesFromAnOldHolder) {
  const PlannerOptions options{.relay = false};
  const auto fetched = [&](const cluster::Cluster& cluster, std::initializer_list<int> holders,
                           std::initializer_list<int> wanting) {
    return text(
        FanOut(cluster, options).distribute(by_host(numbers(holders), cluster), by_host(numbers(wanting), cluster), 1));
  };
  EXPECT_EQ(fetched(cluster_of(2, 4), {0}, {4, 5, 6}), "g0>g4@0 g0>g5@0 g0>g6@0 ");
  EXPECT_EQ(fetched(cluster_of(4, 1), {0, 1}, {2, 3}), "g0>g2@0 g1>g3@0 ") << "the host that has sent least";
  EXPECT_EQ(fetched(cluster_of(2, 4), {0, 4, 5}, {1, 6, 7}), "g0>g1@0 g4>g6@0 g5>g7@0 ") << "the nearest";
}

// Random holders and wanting devices: each wanting device receives once, from a holder or from one that received on an
// earlier hop; every host that lacks the box is crossed into once; nobody sends over the network twice.
TEST(FanOut, EveryDeviceReceivesOnceFromOneThatHasIt) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const int per_host = static_cast<int>(random.between(1, 4));
    const cluster::Cluster cluster = cluster_of(static_cast<int>(random.between(1, 6)), per_host);
    std::vector<DeviceId> holders, wanting;
    for (int i = 0; i < cluster.device_count(); ++i) {
      const int64_t side = random.below(3);
      if (side == 0) holders.emplace_back(i);
      if (side == 1) wanting.emplace_back(i);
    }
    if (holders.empty() || wanting.empty()) continue;
    const PlannerOptions options;
    std::map<DeviceId, int> has;  // hop after which
    for (const DeviceId device : holders) has[device] = -1;
    std::map<DeviceId, int> crossings;
    std::set<HostId> crossed_into;
    for (const Leg& leg :
         FanOut(cluster, options).distribute(by_host(holders, cluster), by_host(wanting, cluster), 8)) {
      const DeviceId src(leg.src.index);
      ASSERT_TRUE(has.count(src) != 0 && has[src] < leg.hop) << text({leg});
      ASSERT_TRUE(has.emplace(leg.dst, leg.hop).second) << "received twice";
      const bool cross = cluster.host_of(src) != cluster.host_of(leg.dst);
      EXPECT_EQ(cross, leg.transfer_class == TransferClass::kCrossHost);
      if (!cross) continue;
      EXPECT_TRUE(crossed_into.insert(cluster.host_of(leg.dst)).second);
      EXPECT_EQ(++crossings[src], 1);
    }
    for (const DeviceId device : wanting) EXPECT_EQ(has.count(device), 1u);
    for (const DeviceId device : holders) EXPECT_EQ(crossed_into.count(cluster.host_of(device)), 0u);
  }
}

// ---- spread --------------------------------------------------------------------------------------------------------

TEST(Spread, AgreesWithWhatEveryRankHolds) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes sizes = random_sizes(random, 16);
    const collection::Collection job = grid_collection(sizes, random_devices(random, sizes.world(), 16));
    const std::set<DeviceId> lost = {job.device_of_rank.front()};
    Side side(job, lost);
    for (size_t i = 0; i < job.tensors.size(); ++i) {
      std::map<tensor::Box, std::vector<DeviceId>> expected;
      for (int rank = 0; rank < job.ranks(); ++rank) {
        const DeviceId device = job.device_of_rank[static_cast<size_t>(rank)];
        if (lost.count(device) != 0) continue;
        for (const auto& piece : job.pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces) {
          expected[piece.box].push_back(device);
        }
      }
      std::map<tensor::Box, std::vector<DeviceId>> found;
      for (const HeldBox& held : side.spread_of(TensorId(static_cast<int64_t>(i))))
        found[held.box] = side.sets()[held.set];
      EXPECT_EQ(found, expected);
    }
  }
}

TEST(BoxIndex, FindsEveryOverlapInOrder) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::vector<HeldBox> grid;
    const int64_t rows = random.between(1, 9), columns = random.between(1, 9);
    for (int64_t i = 0; i < 20; i += rows) {
      for (int64_t j = 0; j < 20; j += columns) grid.push_back({tensor::Box({i, j}, {i + rows, j + columns}), 0});
    }
    const BoxIndex index(grid);
    const int64_t i = random.below(20), j = random.below(20);
    const tensor::Box box({i, j}, {i + random.between(1, 9), j + random.between(1, 9)});
    std::vector<size_t> found, expected;
    index.overlaps(box, [&](size_t at, const tensor::Box&) { found.push_back(at); });
    for (size_t at = 0; at < grid.size(); ++at) {
      if (tensor::intersect(grid[at].box, box)) expected.push_back(at);
    }
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace scalai::plan::internal
