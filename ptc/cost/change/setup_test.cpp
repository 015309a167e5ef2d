#include "ptc/cost/change/setup.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/cost/change/costs.h"
#include "ptc/state/collection/layout_name.h"

namespace scalai::change {
namespace setup_test {

// Ranks in order on hosts of eight; axes as a Megatron layout has them, without tensors.
Groups groups(int tp, int pp, int dp, int nvlink_hosts = 1) {
  collection::Collection collection;
  collection.meshes = {collection::Mesh({{"tp", tp}, {"cp", 1}, {"dp", dp}, {"pp", pp}})};
  cluster::Cluster cluster;
  const int ranks = tp * pp * dp;
  for (int first = 0; first < ranks; first += 8) cluster.hosts.push_back({.first_device = first, .gpus = 8});
  for (size_t h = 0; nvlink_hosts > 1 && h < cluster.hosts.size(); ++h)
    cluster.hosts[h].nvlink_domain = static_cast<int>(h) / nvlink_hosts;
  for (int rank = 0; rank < ranks; ++rank) collection.device_of_rank.emplace_back(rank);
  return groups_of(collection, cluster);
}

const Stack& stack(std::string_view name) { return **find_stack(name); }

TEST(Groups, AreThoseOfMegatron) {
  const Groups found = groups(8, 8, 32);
  std::string text;
  int all = 0;
  for (const GroupKind& kind : found.kinds) {
    text += fmt::format("{} {}x{}{}; ", kind.name, kind.groups, kind.ranks, kind.across_hosts ? " across" : "");
    all += kind.groups;
  }
  EXPECT_EQ(text,
            "world 1x2048 across; tp 256x8; dp 64x32 across; pp 256x8 across; model 32x64 across; "
            "embedding 512x2 across; ");
  // parallel_state.py of early 2023 with t = p = 8, d = 32: t·p + d + n/t + 3·n/p, and the world.
  EXPECT_EQ(all, 64 + 32 + 256 + 3 * 256 + 1);
}

TEST(Groups, OneRankHasNone) {
  EXPECT_TRUE(groups(1, 1, 1).kinds.empty());
  EXPECT_EQ(initialisation_s(stacks().front(), groups(1, 1, 1)), 0);
}

TEST(Groups, OneHostCrossesNone) {
  for (const GroupKind& kind : groups(4, 2, 1).kinds) EXPECT_FALSE(kind.across_hosts) << kind.name;
}

TEST(Groups, GpuLinksThatJoinHostsCountAsOneHost) {
  const auto across = [](const Groups& found, const std::string& name) {
    for (const GroupKind& kind : found.kinds) {
      if (kind.name == name) return kind.across_hosts;
    }
    return false;
  };
  EXPECT_TRUE(across(groups(16, 1, 2), "tp"));
  EXPECT_FALSE(across(groups(16, 1, 2, 2), "tp"));
  EXPECT_TRUE(across(groups(16, 1, 2, 2), "dp"));
}

// With numbers in the head: 16 ranks on 2 hosts, tp 8, dp 2, NCCL of 2025.
TEST(Initialisation, IsASumOverKinds) {
  const double ring = 3 * 0.15e-3, square = 7.24e-9;
  const double world = 0.03 + 0.2 + ring * 15 + square * 256, tp = 0.03 + ring * 7 + square * 64,
               dp = 0.03 + 0.2 + ring * 1 + square * 4, model = tp, first = 0.13 + 0.05;
  Groups all = groups(8, 1, 2);
  const double stay_s = 16 * 1.02e-3 + world + tp + dp + model;
  EXPECT_NEAR(initialisation_s(stack("stock-2025"), all), first + stay_s, 1e-9);
  all.ranks_in_switch = 8;
  EXPECT_NEAR(initialisation_s(stack("stock-2025"), all), first + 8 * 0.22 + stay_s, 1e-9);
  all.processes_stay = true;
  EXPECT_NEAR(initialisation_s(stack("stock-2025"), all), stay_s, 1e-9);
}

// Processes stay where a job shrinks, not where it grows or its processes start again.
TEST(Initialisation, ProcessesThatStayHaveTheirKernels) {
  const auto job = [](int ranks) {
    collection::Collection collection;
    collection.meshes = {collection::Mesh({{"dp", ranks}})};
    for (int rank = 0; rank < ranks; ++rank) collection.device_of_rank.emplace_back(rank);
    return collection;
  };
  cluster::Cluster cluster;
  cluster.hosts.push_back({.first_device = 0, .gpus = 8, .gpu = {.in_switch_reduction = true}});
  const collection::Collection four = job(4), eight = job(8);
  EXPECT_TRUE(groups_of(four, cluster, &eight).processes_stay);
  EXPECT_FALSE(groups_of(eight, cluster, &four).processes_stay);
  EXPECT_FALSE(groups_of(four, cluster).processes_stay) << "a job that starts";
  EXPECT_FALSE(groups_of(four, cluster, &eight, {DeviceId(3)}).processes_stay) << "repaired before the job left it";
  EXPECT_TRUE(groups_of(four, cluster, &eight, {DeviceId(7)}).processes_stay);
  EXPECT_EQ(groups_of(four, cluster, &eight).ranks_in_switch, 4);
  EXPECT_EQ(groups_of(job(1), cluster).ranks_in_switch, 0);
  Costs costs;
  const Groups stay = groups_of(four, cluster, &eight), fresh = groups_of(four, cluster);
  EXPECT_NEAR(communicator_s(costs, fresh) - communicator_s(costs, stay), 0.13 + 0.05 + 4 * 0.22, 1e-9);
  costs.restart_s = 10;
  EXPECT_EQ(communicator_s(costs, stay), communicator_s(costs, fresh));
}

// MegaScale (NSDI'24, 3.5): 1,047 s at 2,048 GPUs as it was, below 5 s at 2,048 and below 30 s beyond 10,000 as they
// made it.
TEST(Initialisation, MeetsMegaScale) {
  EXPECT_NEAR(initialisation_s(stack("stock-2022"), groups(8, 8, 32)), 1047, 0.1 * 1047);
  EXPECT_LT(initialisation_s(stack("tuned"), groups(8, 8, 32)), 5);
  EXPECT_LT(initialisation_s(stack("tuned"), groups(8, 8, 192)), 30);
}

// NCCLX (arXiv 2510.20171): 265 s at 96,000 GPUs before. NCCL issue 534: 2.04 s for a communicator of eight V100.
TEST(Initialisation, MeetsOtherPublishedTimes) {
  EXPECT_NEAR(initialisation_s(stack("stock-2025"), groups(8, 16, 768)), 265, 0.2 * 265);
  const Groups eight = groups(8, 1, 1);
  EXPECT_NEAR(initialisation_s(stack("stock-2022"), {.ranks = 8, .kinds = {eight.kinds.front()}}), 2.04, 0.05);
}

// ByteRobust (SOSP'25), Table 7: jobs queued again with new pods, and updated in place.
TEST(Restart, MeetsByteRobust) {
  const std::pair<int, double> requeued[] = {{2048, 454}, {4096, 545}, {8192, 635}, {16384, 768}};
  for (const auto& [ranks, seconds] : requeued)
    EXPECT_NEAR(restart_s(stack("stock-2025"), ranks), seconds, 0.03 * seconds) << ranks;
  const std::pair<int, double> updated[] = {{2048, 46}, {4096, 51}, {8192, 54}, {16384, 65}};
  for (const auto& [ranks, seconds] : updated)
    EXPECT_NEAR(restart_s(stack("tuned"), ranks), seconds, 0.06 * seconds) << ranks;
  EXPECT_EQ(restart_s(stack("stock-2025"), 16), 65);
}

TEST(Costs, WhatIsGivenComesBeforeTheStack) {
  Costs costs{.stack = &stack("stock-2022"), .restart_s = -1};
  EXPECT_EQ(detect_s(costs), 15);
  EXPECT_EQ(detect_s(costs, /*hangs=*/true), 600 + 300);
  EXPECT_EQ(restart_s(costs, 8), 65);
  costs.detect_s = 2, costs.hang_s = 30, costs.restart_s = 3, costs.communicator_s = 4;
  EXPECT_EQ(detect_s(costs), 2);
  EXPECT_EQ(detect_s(costs, /*hangs=*/true), 30);
  EXPECT_EQ(start_seconds(costs, groups(8, 1, 2)), 3 + 4);
}

TEST(Stacks, AreFoundByName) {
  EXPECT_THAT(stack_names(), ::testing::ElementsAre("stock-2025", "stock-2022", "tuned"));
  EXPECT_THAT(message_of(find_stack("tund").status()), ::testing::HasSubstr("did you mean \"tuned\"?"));
}

}  // namespace setup_test
}  // namespace scalai::change
