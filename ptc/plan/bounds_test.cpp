#include "ptc/plan/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace bounds_test {

using tensor::Box;
using tensor::SplitRule;

TEST(LowerBounds, ABoxCrossesOnceAHost) {
  const Case job{.from = replicas({8}, devices({0})), .to = replicas({8}, devices({4, 5, 6, 8}))};
  const Bounds bounds = lower_bounds(job.input());
  EXPECT_EQ(bounds.given_placement, (ClassBytes{.same_host = 2 * 32, .cross_host = 2 * 32}));
  EXPECT_EQ(job.plan().bytes(), bounds.given_placement);
}

TEST(LowerBounds, WhatTheHostHoldsNeedNotCross) {
  const Case job{.from = one_tensor({8}, cut_over("x", 0), devices({0, 4})), .to = replicas({8}, devices({1, 5}))};
  EXPECT_EQ(lower_bounds(job.input()).given_placement, (ClassBytes{.same_host = 32, .cross_host = 32}));
}

TEST(LowerBounds, KeptIsTheSameBoxAndSameDeviceAPart) {
  const Case job{.from = one_tensor({8}, cut_over("x", 0), devices({0, 1})),
                 .to = one_tensor({8}, {.rule = SplitRule::kExplicit, .bounds = {0, 4, 6, 8}}, devices({0, 1, 2}))};
  EXPECT_EQ(lower_bounds(job.input()).given_placement, (ClassBytes{.kept = 16, .same_device = 8, .same_host = 8}));
}

// Elements 4 to 8, 16 bytes, are lost: three devices on two hosts want them.
TEST(LowerBounds, LostStateComesFromStorageOnceOrForEachHostOrDevice) {
  Case job{.from = one_tensor({8}, cut_over("x", 0), devices({0, 1})), .to = replicas({8}, devices({0, 4, 5}))};
  job.residency = {.lost = {DeviceId(1)}, .extra = {}, .storage = true};
  const auto bound = [&](StorageReads reads) { return lower_bounds(job.input(), reads).given_placement; };
  EXPECT_EQ(bound(StorageReads::kOnce),
            (ClassBytes{.same_device = 16, .same_host = 32, .cross_host = 32, .from_storage = 16}));
  EXPECT_EQ(bound(StorageReads::kEachHost),
            (ClassBytes{.same_device = 16, .same_host = 32, .cross_host = 16, .from_storage = 32}));
  EXPECT_EQ(bound(StorageReads::kEachDevice),
            (ClassBytes{.same_device = 16, .same_host = 16, .cross_host = 16, .from_storage = 48}));
  job.to = replicas({8}, devices({0, 4}));
  job.residency.extra = {{TensorId(0), Box({2}, {8}), HostId(1)}};
  EXPECT_EQ(lower_bounds(job.input()).given_placement,
            (ClassBytes{.same_device = 16, .same_host = 24, .cross_host = 24}));
}

TEST(LowerBounds, AnyPlacementCountsWhatNoTargetHostHolds) {
  const Case job{.from = one_tensor({8}, cut_over("x", 0), devices({0, 4})),
                 .to = one_tensor({8}, cut_over("x", 0), devices({5, 6}))};
  EXPECT_EQ(lower_bounds(job.input()).any_placement_cross_host, 16);
}

TEST(LowerBounds, AnyPlacementCountsWhatEachNewHostMustGet) {
  const Case job{.from = replicas({8}, devices({0})), .to = replicas({8}, devices({0, 4, 8}))};
  EXPECT_EQ(lower_bounds(job.input()).any_placement_cross_host, 2 * 32);
}

// Tries all assignments of the new ranks to the new devices: the bound is never above the best of them.
TEST(LowerBounds, AnyPlacementIsBelowTheBestOfAllAssignments) {
  int tight = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto side = [&random](std::vector<DeviceId> ids) {
      const std::vector<SplitRule> rules = {SplitRule::kBalanced, SplitRule::kCeil};
      const auto rule = rules[static_cast<size_t>(random.below(2))];
      const bool replicated = random.below(4) == 0;
      const int count = static_cast<int>(ids.size());
      std::vector<tensor::Cut> cuts;
      if (!replicated) cuts.push_back(cut_over("x", 0, rule));
      return collection_of({{"x", count}}, std::move(ids),
                           {tensor_of("w", {6}, cuts), tensor_of("v", {3, 2}, {cut_over("x", 1)})});
    };
    Case job{.from = side(random_devices(random, static_cast<int>(random.between(1, 5)), 6)),
             .to = side(random_devices(random, static_cast<int>(random.between(1, 5)), 6)),
             .cluster = cluster_of(3, 2)};
    if (random.below(3) == 0) job.residency.lost.insert(job.from.device_of_rank[0]);
    const int64_t bound = lower_bounds(job.input()).any_placement_cross_host;
    std::sort(job.to.device_of_rank.begin(), job.to.device_of_rank.end());
    int64_t best = std::numeric_limits<int64_t>::max();
    do {
      best = std::min(best, lower_bounds(job.input()).given_placement.cross_host);
    } while (std::next_permutation(job.to.device_of_rank.begin(), job.to.device_of_rank.end()));
    EXPECT_LE(bound, best);
    tight += bound == best ? 1 : 0;
  }
  EXPECT_GT(tight, 30);
}

TEST(LowerBounds, ReversedRanksNeedNothingWithAnotherPlacement) {
  std::vector<DeviceId> reversed = first_devices(8);
  std::reverse(reversed.begin(), reversed.end());
  const Case job{.from = one_tensor({64}, cut_over("x", 0), first_devices(8)),
                 .to = one_tensor({64}, cut_over("x", 0), reversed)};
  const Bounds bounds = lower_bounds(job.input());
  EXPECT_EQ(bounds.given_placement.cross_host, 256);
  EXPECT_EQ(bounds.any_placement_cross_host, 0);
}

// A rank whose part is empty needs nothing, so its host may be left out.
TEST(LowerBounds, RanksWithoutStateNeedNothing) {
  const Case job{.from = replicas({6}, devices({0})),
                 .to = one_tensor({6}, cut_over("x", 0, SplitRule::kCeil), devices({0, 4, 8, 12}))};
  EXPECT_LE(lower_bounds(job.input()).any_placement_cross_host, 4 * 4);
}

TEST(SurvivesHostLosses, IsOneLessThanTheHostsOfTheScarcestBox) {
  const cluster::Cluster cluster = cluster_of(4, 4);
  EXPECT_EQ(survives_host_losses(replicas({8}, devices({0, 1})), cluster), 0);
  EXPECT_EQ(survives_host_losses(replicas({8}, devices({0, 1, 4})), cluster), 1);
  EXPECT_EQ(survives_host_losses(replicas({8}, devices({0, 4, 8, 12})), cluster), 3);
  collection::Collection mixed = replicas({8}, devices({0, 4, 8}));
  mixed.tensors.push_back(tensor_of("v", {8}, {}, {{"dp", {0, 2}}}));
  EXPECT_EQ(survives_host_losses(mixed, cluster), 1);
  EXPECT_EQ(survives_host_losses(one_tensor({8}, cut_over("x", 0), devices({0, 4})), cluster), 0);
}

// 8 elements on h0. Copies of 0 to 6 on h1 and of 4 to 8 on h2: 4 and 5 are on three hosts, the others on two.
TEST(SurvivesHostLosses, CopiesInHostMemoryCountElementByElement) {
  const cluster::Cluster cluster = cluster_of(4, 4);
  const collection::Collection alone = replicas({8}, devices({0}));
  const auto copy = [](int64_t lo, int64_t hi, int host) {
    return collection::ExtraHolder{TensorId(0), Box({lo}, {hi}), HostId(host)};
  };
  EXPECT_EQ(survives_host_losses(alone, cluster, {copy(0, 6, 1), copy(4, 8, 2)}), 1);
  EXPECT_EQ(survives_host_losses(alone, cluster, {copy(0, 6, 1), copy(5, 8, 2)}), 1);
  EXPECT_EQ(survives_host_losses(alone, cluster, {copy(0, 6, 1), copy(7, 8, 2)}), 0) << "6 is on h0 alone";
  EXPECT_EQ(survives_host_losses(alone, cluster, {copy(0, 8, 0)}), 0) << "the same host";
  EXPECT_EQ(survives_host_losses(alone, cluster, {copy(0, 8, 1), copy(0, 8, 2), copy(0, 8, 3)}), 3);
  collection::Collection two = alone;
  two.tensors.push_back(tensor_of("v", {8}, {}));
  EXPECT_EQ(survives_host_losses(two, cluster, {copy(0, 8, 1)}), 0) << "v has no copy";
}

}  // namespace bounds_test
}  // namespace scalai::plan
