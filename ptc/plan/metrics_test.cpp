#include "ptc/plan/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace {

using tensor::Box;

// Hosts of four devices: h0 g0-g3, h1 g4-g7, …; F32, so that an element is four bytes.

TEST(DeviceTraffic, CountsWhatComesGoesAndIsNew) {
  // g0 keeps [0,4), g1 copies its [4,6) and gets [6,8) from g2; g2 leaves.
  const Case job{
      .from = one_tensor({8}, {.rule = tensor::SplitRule::kExplicit, .bounds = {0, 4, 6, 8}}, devices({0, 1, 2})),
      .to = one_tensor({8}, cut_over("x", 0), devices({0, 1}))};
  const auto traffic = device_traffic(job.plan());
  ASSERT_EQ(traffic.size(), 3u);
  const auto is = [&](size_t i, int device, int64_t received, int64_t sent, int64_t extra) {
    EXPECT_EQ(traffic[i].device, DeviceId(device));
    EXPECT_EQ(traffic[i].received, received) << "g" << device;
    EXPECT_EQ(traffic[i].sent, sent) << "g" << device;
    EXPECT_EQ(traffic[i].peak_extra, extra) << "g" << device;
  };
  is(0, 0, 0, 0, 0);
  is(1, 1, 8, 0, 8);  // 8 bytes of old and 16 of new state, where 16 stay
  is(2, 2, 0, 8, 0);
}

TEST(DeviceTraffic, StorageIsReceivedAndHostMemoryIsNoDevice) {
  Case job{.from = one_tensor({8}, cut_over("x", 0), devices({0, 1})), .to = replicas({8}, devices({4}))};
  job.residency = {.lost = {DeviceId(1)}, .storage = true};
  job.options.in_place = false;
  const auto traffic = device_traffic(job.plan());
  ASSERT_EQ(traffic.size(), 3u);
  EXPECT_EQ(traffic[2].received, 32);
  EXPECT_EQ(traffic[0].sent + traffic[1].sent, 0);
}

TEST(HottestLink, IsNothingWhenNothingMoves) {
  const Case job{.from = replicas({8}, devices({0, 4})), .to = replicas({8}, devices({4, 0}))};
  EXPECT_FALSE(hottest_link(job.plan(), job.input()).has_value());
}

TEST(HottestLink, IsNothingWhereGpuLinksJoinHosts) {
  Case job{.from = replicas({64}, devices({0})), .to = replicas({64}, devices({0, 4}))};
  EXPECT_TRUE(hottest_link(job.plan(), job.input()).has_value());
  for (cluster::Host& host : job.cluster.hosts) host.nvlink_domain = 0;
  EXPECT_FALSE(hottest_link(job.plan(), job.input()).has_value()) << "not all bytes between hosts are on NICs";
}

TEST(HottestLink, IsADeviceWhileNothingCrossesHosts) {
  const Case job{.from = one_tensor({8}, cut_over("x", 0), devices({0, 1, 2, 3})), .to = replicas({8}, devices({0}))};
  const auto link = hottest_link(job.plan(), job.input());
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->name, "g0.down");
  EXPECT_EQ(link->bytes, 24);
  EXPECT_EQ(link->optimum_bytes, 24) << "g0 lacks six elements";
}

TEST(HottestLink, OneHolderMustSendWhatManyLack) {
  // h0 alone holds 8 elements; h1 and h2 each want a half.
  const Case job{.from = replicas({8}, devices({0})), .to = one_tensor({8}, cut_over("x", 0), devices({4, 8}))};
  const auto link = hottest_link(job.plan(), job.input());
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->name, "h0.nic.up");
  EXPECT_EQ(link->bytes, 32);
  EXPECT_EQ(link->optimum_bytes, 32);
}

TEST(HottestLink, HoldersShareWhatTheyBothHold) {
  // h0 holds all 32 bytes, h1 a part of them; four other hosts want 8 bytes each.
  Case job{.from = replicas({8}, devices({0})),
           .to = one_tensor({8}, cut_over("x", 0), devices({8, 12, 16, 20})),
           .cluster = cluster_of(6, 4)};
  const auto optimum_with_copy_up_to = [&](int64_t end) {
    job.residency.extra = {{TensorId(0), Box({0}, {end}), HostId(1)}};
    return hottest_link(make_plan(job.input()).value(), job.input())->optimum_bytes;
  };
  EXPECT_EQ(optimum_with_copy_up_to(8), 16) << "half each";
  EXPECT_EQ(optimum_with_copy_up_to(6), 16) << "h0 must send 8, and 8 of the 24 they share";
  EXPECT_EQ(optimum_with_copy_up_to(1), 28) << "h0 alone holds 28";
}

TEST(HottestLink, ABoxWantedByAHostCountsOnce) {
  const Case job{.from = replicas({8}, devices({0})), .to = replicas({8}, devices({4, 5, 6}))};
  const auto link = hottest_link(job.plan(), job.input());
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->optimum_bytes, 32);
  EXPECT_GE(link->bytes, 32);
}

TEST(HottestLink, LostDevicesHoldNothing) {
  Case job{.from = replicas({8}, devices({0, 4})), .to = replicas({8}, devices({0, 8, 12}))};
  EXPECT_EQ(hottest_link(job.plan(), job.input())->optimum_bytes, 32);
  job.residency.lost = {DeviceId(0)};
  job.to = one_tensor({8}, cut_over("x", 0), devices({8, 12}));
  EXPECT_EQ(hottest_link(job.plan(), job.input())->optimum_bytes, 32) << "h1 alone is left to send";
}

// 32 bytes from storage enter each host once, whether they are read there or passed on.
TEST(HottestLink, WhatComesFromStorageEntersEveryHostOnce) {
  Case job{.from = replicas({8}, devices({0})), .to = replicas({8}, devices({4, 5, 8}))};
  job.residency = {.lost = {DeviceId(0)}, .extra = {}, .storage = true};
  const auto once = hottest_link(job.plan(), job.input()).value();
  EXPECT_EQ(once.name, "h1.nic.down");
  EXPECT_EQ(once.bytes, 32);
  EXPECT_EQ(once.optimum_bytes, 32);
  job.options.sources = SourceRule::kStorage;
  EXPECT_EQ(hottest_link(job.plan(), job.input())->bytes, 2 * 32) << "two devices of host 1 read for themselves";
  EXPECT_EQ(hottest_link(job.plan(), job.input())->optimum_bytes, 32);
}

TEST(HottestLink, TensorsThatLieAlikeAddUp) {
  const auto side = [](const std::vector<DeviceId>& ids) {
    return collection_of({{"x", 1}}, ids, {tensor_of("a", {8}, {}), tensor_of("b", {8}, {}), tensor_of("c", {2}, {})});
  };
  const Case job{.from = side(devices({0})), .to = side(devices({4}))};
  EXPECT_EQ(hottest_link(job.plan(), job.input())->optimum_bytes, 4 * 18);
}

// --- properties ------------------------------------------------------------------------------------------------------

// The optimum straight from its definition, element by element, with every set of hosts as G.
int64_t optimum_by_elements(const PlannerInput& input) {
  std::map<int, int64_t> in;
  std::map<uint32_t, int64_t> out;  // who may send them (bits) → bytes
  for (size_t t = 0; t < input.to.tensors.size(); ++t) {
    const collection::LogicalTensor& tensor = input.to.tensors[t];
    const int64_t size = tensor::size_of(tensor.dtype);
    std::vector<uint32_t> held(static_cast<size_t>(tensor.shape.elements())), wanted(held.size());
    const auto mark = [&](const collection::Collection& side, std::vector<uint32_t>& marks, bool old_side) {
      for (int rank = 0; rank < side.ranks(); ++rank) {
        const DeviceId device = side.device_of_rank[static_cast<size_t>(rank)];
        if (old_side && input.residency.lost.contains(device)) continue;
        for (const auto& piece : side.pieces(TensorId(static_cast<int64_t>(t)), LogicalRank(rank)).pieces) {
          for (size_t e = 0; e < marks.size(); ++e) {
            Box single = Box::whole(tensor.shape);
            auto rest = static_cast<int64_t>(e);
            for (size_t d = 0; d < static_cast<size_t>(single.rank); ++d) {
              single.lo[d] = rest / tensor.shape.strides()[d];
              single.hi[d] = single.lo[d] + 1;
              rest %= tensor.shape.strides()[d];
            }
            if (piece.box.contains(single)) marks[e] |= 1u << input.cluster.host_of(device).value;
          }
        }
      }
    };
    mark(input.from, held, true);
    mark(input.to, wanted, false);
    for (size_t e = 0; e < held.size(); ++e) {
      const uint32_t lacking = wanted[e] & ~held[e];
      if (lacking == 0 || (held[e] == 0 && !input.residency.storage)) continue;
      if (held[e] != 0) {
        out[held[e]] += size;
        out[held[e] | lacking] += size * (std::popcount(lacking) - 1);
      }
      for (int host = 0; host < 32; ++host) {
        if ((lacking >> host & 1u) != 0) in[host] += size;
      }
    }
  }
  int64_t most = 0;
  for (const auto& [host, bytes] : in) most = std::max(most, bytes);
  for (uint32_t group = 1; group < 1u << input.cluster.hosts.size(); ++group) {
    int64_t sum = 0;
    for (const auto& [senders, bytes] : out) sum += (senders & ~group) == 0 ? bytes : 0;
    const int64_t members = std::popcount(group);
    most = std::max(most, (sum + members - 1) / members);
  }
  return most;
}

TEST(MetricsProperty, TheOptimumIsAsDefinedAndNoPlanIsCooler) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes from = random_sizes(random, 16), to = random_sizes(random, 16);
    Case job{.from = grid_collection(from, random_devices(random, from.world(), 16)),
             .to = grid_collection(to, random_devices(random, to.world(), 24)),
             .cluster = cluster_of(6, 4)};
    for (const DeviceId device : job.from.device_of_rank) {
      if (random.below(4) == 0) job.residency.lost.insert(device);
    }
    job.residency.storage = true;
    job.options.in_place = random.below(2) == 0;
    if (random.below(2) == 0) job.options.sources = SourceRule::kFirstReplica;
    const Plan plan = make_plan(job.input()).value();
    const auto link = hottest_link(plan, job.input());
    if (!link) continue;
    EXPECT_LE(link->optimum_bytes, link->bytes) << link->name;
    if (link->name.starts_with("h") && link->name.find(".nic.") != std::string::npos) {
      EXPECT_EQ(link->optimum_bytes, optimum_by_elements(job.input()));
    }
  }
}

TEST(MetricsProperty, TrafficAddsUpToThePlan) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes from = random_sizes(random, 16), to = random_sizes(random, 16);
    const Case job{.from = grid_collection(from, random_devices(random, from.world(), 16)),
                   .to = grid_collection(to, random_devices(random, to.world(), 16))};
    const Plan plan = make_plan(job.input()).value();
    DeviceTraffic sum;
    for (const DeviceTraffic& one : device_traffic(plan)) {
      sum.received += one.received;
      sum.sent += one.sent;
      sum.peak_extra += one.peak_extra;
    }
    EXPECT_EQ(sum.received, plan.bytes().moved());
    EXPECT_EQ(sum.sent, plan.bytes().moved());
    int64_t beside = -plan.bytes().kept;  // all old and all new state at once, but what is kept only once
    for (const DeviceMemory& memory : plan.memory()) beside += std::min(memory.before, memory.after);
    EXPECT_EQ(sum.peak_extra, beside);
  }
}

}  // namespace
}  // namespace scalai::plan
