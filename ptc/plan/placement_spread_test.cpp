#include <gtest/gtest.h>

#include <algorithm>

#include "ptc/plan/bounds.h"
#include "ptc/plan/internal/placement_change.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace {

using collection::Collection;

Placement spread(Case& job, const std::vector<DeviceId>& candidates, SpreadRule spread,
                 PlacementRule rule = PlacementRule::kHosts) {
  job.placement = {.rule = rule, .spread = spread};
  return best_placement(job.input(), job.placement, candidates);
}

// Two stages with a tensor of 32 floats each, cut over tp; ranks in the order tp, dp, pp.
Collection two_stages(int dp, const std::vector<DeviceId>& devices) {
  return collection_of({{"tp", 2}, {"dp", dp}, {"pp", 2}}, devices,
                       {tensor_of("a", {32}, {cut_over("tp", 0)}, {{"pp", {0}}}),
                        tensor_of("b", {32}, {cut_over("tp", 0)}, {{"pp", {1}}})});
}

TEST(Spread, PutsReplicasOnDifferentHostsAndSaysWhatThatCosts) {
  Case job{.from = replicas({64}, first_devices(1)), .to = replicas({64}, first_devices(2))};
  job.cluster = cluster_of(2, 4);
  const Placement together = spread(job, first_devices(8), SpreadRule::kNone);
  EXPECT_EQ(together.device_of_rank, devices({0, 1}));
  for (const PlacementRule rule : {PlacementRule::kHosts, PlacementRule::kFree}) {
    const Placement apart = spread(job, first_devices(8), SpreadRule::kHost, rule);
    EXPECT_EQ(apart.device_of_rank[0], DeviceId(0));
    EXPECT_GE(apart.device_of_rank[1], DeviceId(4));
    EXPECT_EQ(apart.spread.cross_host, 256);
    EXPECT_EQ(apart.spread.moved, 0) << "one copy either way";
    EXPECT_EQ(apart.spread.bytes_in_one_domain, 0);
    EXPECT_EQ(apart.spread.bytes_in_one_domain_without, 256);
  }
}

// In rank order a host has one stage with both replicas; spread, it has one replica with both stages.
TEST(Spread, OrdersRanksByReplica) {
  Case job{.from = two_stages(2, first_devices(8)), .to = two_stages(2, first_devices(8))};
  job.cluster = cluster_of(2, 4);
  const Placement apart = spread(job, first_devices(8), SpreadRule::kHost);
  EXPECT_EQ(apart.spread.cross_host, 256) << "each host lacks one stage of 128 bytes";
  EXPECT_EQ(apart.spread.moved, 256) << "a device fetches a shard of 64 bytes in four cases of eight";
  EXPECT_EQ(apart.spread.bytes_in_one_domain, 0);
  EXPECT_EQ(apart.spread.bytes_in_one_domain_without, 256);
  job.to.device_of_rank = apart.device_of_rank;
  EXPECT_EQ(job.plan().survives_host_losses(), 1);
  EXPECT_EQ(job.plan().bytes().cross_host, 256);
}

// Four hosts of two GPUs, racks of two hosts: on different hosts in one rack is not enough.
TEST(Spread, TakesRacksForDomains) {
  Case job{.from = two_stages(2, first_devices(8)), .to = two_stages(2, first_devices(8))};
  job.cluster = cluster_of(4, 2);
  job.cluster.rack_hosts = 2;
  const Placement by_host = spread(job, first_devices(8), SpreadRule::kHost);
  EXPECT_EQ(by_host.device_of_rank, first_devices(8)) << "replicas are on different hosts already";
  EXPECT_EQ(by_host.spread.cross_host, 0);
  const Placement by_rack = spread(job, first_devices(8), SpreadRule::kRack);
  EXPECT_EQ(by_rack.spread.cross_host, 256);
  EXPECT_EQ(by_rack.spread.bytes_in_one_domain, 0);
  EXPECT_EQ(by_rack.spread.bytes_in_one_domain_without, 256);
  for (size_t stage = 0; stage < 2; ++stage) {
    const auto rack_of = [&](size_t rank) {
      return job.cluster.rack_of(job.cluster.host_of(by_rack.device_of_rank[rank]));
    };
    EXPECT_NE(rack_of(4 * stage), rack_of(4 * stage + 2)) << "stage " << stage;
  }
}

// Hosts of two GPUs, four an NVLink domain: a tensor-parallel group of four stays in one, whatever is lost.
TEST(Domains, HoldTensorParallelGroups) {
  const auto groups = [](int dp, const std::vector<DeviceId>& devices) {
    return collection_of({{"tp", 4}, {"dp", dp}}, devices, {tensor_of("a", {64}, {cut_over("tp", 0)})});
  };
  Case job{.from = groups(4, first_devices(16)), .to = groups(2, first_devices(8))};
  job.cluster = cluster_of(8, 2);
  const std::vector<DeviceId> left = devices({0, 1, 2, 3, 6, 7, 8, 9, 12, 13});  // hosts 2, 5 and 7 are lost
  job.to.device_of_rank = std::vector<DeviceId>(left.begin(), left.begin() + 8);
  for (size_t h = 0; h < 8; ++h) job.cluster.hosts[h].nvlink_domain = static_cast<int>(h / 4);
  job.placement = {.rule = PlacementRule::kHosts};
  const std::vector<DeviceId> placed = best_placement(job.input(), job.placement, left).device_of_rank;
  for (size_t rank = 0; rank < 8; ++rank) {
    const auto domain = [&](size_t r) { return job.cluster.domain_of(job.cluster.host_of(placed[r])); };
    EXPECT_EQ(domain(rank), domain(rank / 4 * 4)) << "rank " << rank;
  }
}

TEST(Spread, ChangesNothingWhereThereIsNothingToSpread) {
  Case single{.from = two_stages(1, first_devices(4)), .to = two_stages(1, first_devices(4))};
  const Placement alone = spread(single, first_devices(8), SpreadRule::kHost);
  EXPECT_EQ(alone.device_of_rank, first_devices(4)) << "one replica";
  EXPECT_EQ(alone.spread.bytes_in_one_domain, 0);

  Case cramped{.from = two_stages(2, first_devices(8)), .to = two_stages(2, first_devices(8))};
  cramped.cluster = cluster_of(1, 8);
  const Placement together = spread(cramped, first_devices(8), SpreadRule::kHost);
  EXPECT_EQ(together.device_of_rank, first_devices(8)) << "one host";
  EXPECT_EQ(together.spread.cross_host, 0);
  EXPECT_EQ(together.spread.bytes_in_one_domain, 256);
}

// With room for it, no host (rack) has all replicas of anything, whatever the layout; and it is never free of charge
// twice: the price is what the unspread placement saves.
TEST(Spread, LeavesNoReplicaAloneInAnyLayout) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes from = random_sizes(random, 24);
    Sizes to = random_sizes(random, 24);
    to.dp = std::max(to.dp, 2);
    if (to.world() > 24) continue;
    Case job{.from = grid_collection(from, random_devices(random, from.world(), 24)),
             .to = grid_collection(to, first_devices(to.world()))};
    job.cluster = cluster_of(6, 4);
    job.cluster.rack_hosts = 3;
    const std::vector<DeviceId> candidates = first_devices(24);
    const bool racks = random.below(2) == 0;
    if (racks && to.dp * to.tp * to.pp > 12 && to.dp % 2 == 1) continue;  // does not fit by halves
    const Placement apart = spread(job, candidates, racks ? SpreadRule::kRack : SpreadRule::kHost);
    EXPECT_EQ(apart.spread.bytes_in_one_domain, 0);
    EXPECT_GE(apart.spread.cross_host, 0);
    const std::vector<DeviceId> cheapest = spread(job, candidates, SpreadRule::kNone).device_of_rank;
    job.to.device_of_rank = apart.device_of_rank;
    cluster::Cluster domains = job.cluster;
    if (racks) domains = cluster_of(2, 12);
    EXPECT_GE(survives_host_losses(job.to, domains), 1);
    const int64_t with = lower_bounds(job.input()).given_placement.cross_host;
    job.to.device_of_rank = cheapest;
    EXPECT_GE(with - lower_bounds(job.input()).given_placement.cross_host, 0);
  }
}

// As few bytes in one domain as any placement, then as cheap: small jobs, all placements.
TEST(SpreadFree, IsTheBestOfAllPlacements) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes from = random_sizes(random, 6),
                to{.tp = 1 + static_cast<int>(seed % 2), .pp = 1, .dp = 2 + static_cast<int>(seed % 3 == 0)};
    Case job{.from = grid_collection(from, random_devices(random, from.world(), 6)),
             .to = grid_collection(to, first_devices(to.world()))};
    job.cluster = cluster_of(3, 2);
    job.cluster.rack_hosts = 2;
    job.placement.spread = seed % 4 < 2 ? SpreadRule::kHost : SpreadRule::kRack;
    std::vector<DeviceId> order = first_devices(6);
    const RankedChange change(job.input(), job.placement.spread);
    PlacementCost best = change.cost(job.to.device_of_rank), cheapest = best;
    const auto bytes = [](const PlacementCost& cost) { return std::pair(cost.cross_host, cost.moved); };
    do {
      const PlacementCost cost = change.cost({order.begin(), order.begin() + to.world()});
      best = std::min(best, cost);
      if (bytes(cost) < bytes(cheapest)) cheapest = cost;
    } while (std::next_permutation(order.begin(), order.end()));
    const Placement found = spread(job, first_devices(6), job.placement.spread, PlacementRule::kFree);
    EXPECT_EQ(change.cost(found.device_of_rank), best);
    EXPECT_EQ(found.spread.cross_host, best.cross_host - cheapest.cross_host);
    EXPECT_EQ(found.spread.moved, best.moved - cheapest.moved);
    EXPECT_EQ(found.spread.bytes_in_one_domain, best.in_one_domain);
  }
}

}  // namespace
}  // namespace scalai::plan
