#include "ptc/cost/step/collectives.h"

#include <gtest/gtest.h>

#include "ptc/cluster/catalogue.h"

namespace scalai::step {
namespace {

using Link = Communication::Link;

// 100 GB/s in a host, 10 GB/s of network a GPU, both at 0.8 of that.
constexpr double kLaunch = 6e-6;
constexpr Links kLinks = {
    .link_bytes_per_s = 100e9, .network_bytes_per_s = 10e9, .link_efficiency = 0.8, .network_efficiency = 0.8};

// Measured: 1 GB/s a GPU instead of 0.8 · 10, so that a ring that leaves a host with four ranks has 4. Messages are
// free.
TEST(Collectives, RingsOverHostsReachWhatWasMeasured) {
  Links links = kLinks;
  links.ring_bytes_per_s = 1e9;
  const Group group{.ranks = 8, .per_host = 4};
  const Communication gathered = collective(links, Collective::kAllGather, group, 8e9);
  EXPECT_NEAR(gathered.seconds - gathered.latency_s, 7e9 / 4e9, 1e-9);
  EXPECT_EQ(collective(links, Collective::kAllGather, {.ranks = 8, .per_host = 8}, 8e9).seconds,
            collective(kLinks, Collective::kAllGather, {.ranks = 8, .per_host = 8}, 8e9).seconds);
  EXPECT_EQ(message(links, true, 1e9).seconds, message(kLinks, true, 1e9).seconds);
}

// Eight choices of 16 ranks on two hosts: 16·(1 − (15/16)^8) = 6.453 ranks are hit, of which 7/8 are counted as others
// in the host, and 2·(1 − (1/2)^8) = 1.992 hosts, half of them other ones. NCCL sends eight copies, half of them to the
// other.
TEST(Collectives, TokensGoOnceToEachHostAndRank) {
  const Group group{.ranks = 16, .per_host = 8};
  const double tokens = 1e9;
  const Communication once = dispatch_once(kLinks, group, tokens, 8);
  EXPECT_EQ(once.link, Link::kNetwork);
  EXPECT_NEAR(once.seconds - once.latency_s, 1.9921875 / 2 * tokens / 8e9, 1e-9);
  const Communication copies = collective(kLinks, Collective::kAllToAll, group, 8 * tokens);
  EXPECT_NEAR((copies.seconds - copies.latency_s) / (once.seconds - once.latency_s), 4 / 0.99609375, 1e-9);
  const Group host{.ranks = 8, .per_host = 8};  // 8·(1 − (7/8)^8) = 5.251
  const Communication inside = dispatch_once(kLinks, host, tokens, 8);
  EXPECT_NEAR(inside.seconds - inside.latency_s, 5.2511 * 7 / 8 * tokens / 80e9, 1e-5);
  EXPECT_EQ(dispatch_once(kLinks, {.ranks = 1}, tokens, 8).seconds, 0);
}

TEST(Collectives, OneRankOrNoBytesSendNothing) {
  for (const Collective kind : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                Collective::kAllToAll, Collective::kBroadcast}) {
    EXPECT_EQ(collective(kLinks, kind, {.ranks = 1}, 1e9).seconds, 0);
    EXPECT_EQ(collective(kLinks, kind, {.ranks = 8, .per_host = 8}, 0).seconds, 0);
  }
  EXPECT_EQ(message(kLinks, true, 0).seconds, 0);
}

TEST(Collectives, LargeRingsMoveWhatTheFormulaSays) {
  const Group eight{.ranks = 8, .per_host = 8};
  // Simple: 6 µs to launch, 8.4 and 14 steps of 3.4; 2 · 7/8 of the bytes at 80 GB/s.
  const Communication reduced = collective(kLinks, Collective::kAllReduce, eight, 8e9);
  EXPECT_NEAR(reduced.latency_s, kLaunch + 8.4e-6 + 14 * 3.4e-6, 1e-12);
  EXPECT_NEAR(reduced.seconds, reduced.latency_s + 14e9 / 80e9, 1e-9);
  EXPECT_EQ(reduced.link, Link::kGpuLink);
  for (const Collective kind : {Collective::kReduceScatter, Collective::kAllGather}) {
    const Communication half = collective(kLinks, kind, eight, 8e9);
    EXPECT_NEAR(half.seconds, kLaunch + 8.4e-6 + 7 * 3.4e-6 + 7e9 / 80e9, 1e-9);
  }
}

// Each rank waits for whole chunks: in a host 6 + 8.4 + 8 · 4 µs with Simple, over hosts 6 + 14 + 64 · 4 µs with LL128,
// whose 0.92 of the bandwidth costs less than Simple's 14 µs a rank.
TEST(Collectives, BroadcastsWaitForAChunkAtEachRank) {
  const Communication inside = collective(kLinks, Collective::kBroadcast, {.ranks = 8, .per_host = 8}, 8e9);
  EXPECT_NEAR(inside.latency_s, kLaunch + 8.4e-6 + 8 * 4e-6, 1e-12);
  EXPECT_NEAR(inside.seconds, inside.latency_s + 8e9 / 80e9, 1e-9);
  const Communication across = collective(kLinks, Collective::kBroadcast, {.ranks = 64, .per_host = 8}, 200e6);
  EXPECT_NEAR(across.latency_s, kLaunch + 14e-6 + 64 * 4e-6, 1e-12);
  EXPECT_NEAR(across.seconds, across.latency_s + 200e6 / (64e9 * 0.92), 1e-9);
}

TEST(Collectives, BytesAreThoseOfALinkAtItsNominalRate) {
  for (const Group& group :
       {Group{.ranks = 8, .per_host = 8}, Group{.ranks = 16, .per_host = 8}, Group{.ranks = 16, .per_host = 1}}) {
    for (const Collective kind :
         {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather, Collective::kAllToAll}) {
      const Communication one = collective(kLinks, kind, group, 3e8);
      const double rate = one.link == Link::kNetwork ? 10e9 : 100e9;
      EXPECT_NEAR(one.seconds, one.latency_s + one.bytes / rate, 1e-12);
    }
  }
  const Communication sent = message(kLinks, true, 1e6);
  EXPECT_NEAR(sent.seconds, sent.latency_s + sent.bytes / 10e9, 1e-12);
}

TEST(Collectives, RingsOverHostsUseTheNicsOfAllTheirRanksThere) {
  const double one = collective(kLinks, Collective::kAllGather, {.ranks = 16, .per_host = 1}, 1e10).seconds;
  const double four = collective(kLinks, Collective::kAllGather, {.ranks = 16, .per_host = 4}, 1e10).seconds;
  EXPECT_NEAR(one, 15.0 / 16 * 1e10 / 8e9, 1e-3);
  EXPECT_NEAR(four, one / 4, 1e-3);
  // Ten NICs are as fast as the link, more of them no faster.
  const Communication wide = collective(kLinks, Collective::kAllGather, {.ranks = 32, .per_host = 16}, 1e10);
  EXPECT_EQ(wide.link, Link::kGpuLink);
  EXPECT_NEAR(wide.seconds, 31.0 / 32 * 1e10 / 80e9, 1e-3);
}

TEST(Collectives, UnevenRingsAreAsFastAsTheHostWithTheFewestRanks) {
  // 4 + 2 ranks: two NICs on the second host.
  const Group uneven{.ranks = 6, .per_host = 2, .over_hosts = 2};
  const Communication gathered = collective(kLinks, Collective::kAllGather, uneven, 6e9);
  EXPECT_EQ(gathered.link, Link::kNetwork);
  EXPECT_NEAR(gathered.seconds - gathered.latency_s, 5e9 / (2 * 8e9), 1e-9);
  // Simple: one step of five is between hosts.
  EXPECT_NEAR(gathered.latency_s, kLaunch + 8.4e-6 + 4 * 3.4e-6 + 14e-6, 1e-12);
  // A tree has chains of three ranks in both hosts, LL.
  const double tiny = collective(kLinks, Collective::kAllReduce, uneven, 8).latency_s;
  EXPECT_LE(tiny, kLaunch + 6.8e-6 + 2 * (2 * 0.6e-6 + 5e-6) + 1e-12);
}

TEST(Collectives, TensorParallelismOverHostsIsNotPricedAsNvlink) {
  collection::ParallelConfig config;
  config.tp = 4;
  config.dp = 3;
  cluster::Host host;
  host.gpu = *cluster::find_gpu_kind("a100-80g");
  host.gpu_link_bytes_per_s = 300e9;
  host.nic_bytes_per_s = 25e9;
  const auto seconds = [&](int gpus) {
    host.gpus = gpus;
    host.nics = gpus;
    const Hardware hardware = uniform_hardware(host, config);
    return collective(links_of(hardware), Collective::kAllReduce, hardware.tp, 1e8).seconds;
  };
  EXPECT_GT(seconds(6), 3 * seconds(8));  // ranks 4 to 7 have two hosts of six
  EXPECT_EQ(seconds(12), seconds(8));
}

TEST(Collectives, AFabricThatAllShareIsInSecondsButNotInBytes) {
  const Group group{.ranks = 8, .per_host = 1}, narrow{.ranks = 8, .per_host = 1, .fabric_share = 0.25};
  const Communication whole = collective(kLinks, Collective::kAllGather, group, 1e9);
  const Communication quarter = collective(kLinks, Collective::kAllGather, narrow, 1e9);
  EXPECT_NEAR(quarter.bytes, whole.bytes, 1);
  EXPECT_NEAR(quarter.seconds - quarter.latency_s, 4 * (whole.seconds - whole.latency_s), 1e-9);
}

TEST(Collectives, SmallOnesTakeTheProtocolOfLowLatency) {
  const Group eight{.ranks = 8, .per_host = 8};
  const Communication tiny = collective(kLinks, Collective::kAllReduce, eight, 8);
  EXPECT_NEAR(tiny.latency_s, kLaunch + 6.6e-6 + 14 * 0.6e-6, 1e-12);
  Links simple = kLinks;
  simple.simple_only = true;
  EXPECT_NEAR(collective(simple, Collective::kAllReduce, eight, 8).latency_s, kLaunch + 8.4e-6 + 14 * 3.4e-6, 1e-12);
}

TEST(Collectives, ManyHostsReduceSmallBuffersInATree) {
  const Group group{.ranks = 1024, .per_host = 1};
  const double reduced = collective(kLinks, Collective::kAllReduce, group, 1e3).seconds;
  // LL: 2 · log2(1024) steps of 5 µs, not 2046 of 2.7.
  EXPECT_NEAR(reduced, kLaunch + 6.8e-6 + 20 * 5e-6, 1e-6);
  EXPECT_GT(collective(kLinks, Collective::kAllGather, group, 1e3).seconds, 1e-3);
}

TEST(Collectives, SwitchesThatAddUpAreFasterForLargeBuffersOnly) {
  Links links = kLinks;
  links.in_switch_reduction = true;
  const Group eight{.ranks = 8, .per_host = 8};
  const double large = collective(links, Collective::kAllReduce, eight, 8e9).seconds;
  EXPECT_NEAR(large, 75e-6 + 8e9 / (0.602 * 100e9), 1e-6);
  EXPECT_LT(large, collective(kLinks, Collective::kAllReduce, eight, 8e9).seconds);
  EXPECT_EQ(collective(links, Collective::kAllReduce, eight, 1e3).seconds,
            collective(kLinks, Collective::kAllReduce, eight, 1e3).seconds);
  EXPECT_EQ(collective(links, Collective::kAllGather, eight, 8e9).seconds,
            collective(kLinks, Collective::kAllGather, eight, 8e9).seconds);
}

TEST(Collectives, AllToAllIsBoundByThePartThatLeavesTheHost) {
  // A rank keeps 1/16, sends 7/16 over the link and 8/16 over its NIC.
  const Communication over = collective(kLinks, Collective::kAllToAll, {.ranks = 16, .per_host = 8}, 1.6e9);
  EXPECT_EQ(over.link, Link::kNetwork);
  EXPECT_NEAR(over.seconds - over.latency_s, 0.8e9 / 8e9, 1e-9);
  const Communication inside = collective(kLinks, Collective::kAllToAll, {.ranks = 8, .per_host = 8}, 1.6e9);
  EXPECT_EQ(inside.link, Link::kGpuLink);
  EXPECT_NEAR(inside.seconds - inside.latency_s, 1.4e9 / 80e9, 1e-9);
}

TEST(Collectives, UnlimitedLinksCostTheirLatencyOnly) {
  const Links none;
  const Communication one = collective(none, Collective::kAllReduce, {.ranks = 8, .per_host = 4}, 1e12);
  EXPECT_EQ(one.bytes, 0);
  EXPECT_EQ(one.seconds, one.latency_s);
  EXPECT_LT(one.seconds, 1e-3);
  EXPECT_LT(message(none, true, 1e12).seconds, 1e-3);
}

TEST(Collectives, MoreBytesAndMoreRanksNeverTakeLess) {
  for (const Collective kind : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    double before = 0;
    for (double bytes = 1; bytes < 1e11; bytes *= 3) {
      const double now = collective(kLinks, kind, {.ranks = 64, .per_host = 8}, bytes).seconds;
      EXPECT_GE(now, before);
      before = now;
    }
    before = 0;
    for (int hosts = 1; hosts <= 1024; hosts *= 2) {
      const double now = collective(kLinks, kind, {.ranks = 8 * hosts, .per_host = 8}, 1e8).seconds;
      EXPECT_GE(now, before * (1 - 1e-9)) << hosts;
      before = now;
    }
  }
}

TEST(Collectives, SumsAndMultiples) {
  const Communication link{.link = Link::kGpuLink, .latency_s = 1, .bytes = 10, .seconds = 3};
  const Communication network{.link = Link::kNetwork, .latency_s = 2, .bytes = 20, .seconds = 7};
  const Communication twice = times(link, 2);
  EXPECT_DOUBLE_EQ(twice.latency_s, 2);
  EXPECT_DOUBLE_EQ(twice.bytes, 20);
  EXPECT_DOUBLE_EQ(twice.seconds, 6);
  const Communication same = together(link, link);
  EXPECT_DOUBLE_EQ(same.bytes, 20);
  EXPECT_DOUBLE_EQ(same.latency_s, 2);
  const Communication mixed = together(link, network);
  EXPECT_EQ(mixed.link, Link::kNetwork);
  EXPECT_DOUBLE_EQ(mixed.bytes, 20);
  EXPECT_DOUBLE_EQ(mixed.latency_s, 5);  // the time on the other link passes before
  EXPECT_DOUBLE_EQ(mixed.seconds, 10);
}

TEST(Collectives, LinksAreThoseOfTheHardware) {
  Hardware hardware;
  hardware.stages = {{.gpu = *cluster::find_gpu_kind("h100-80g")}};
  hardware.link_bytes_per_s = 450e9;
  hardware.nic_bytes_per_s = 50e9;
  const Links links = links_of(hardware);
  EXPECT_DOUBLE_EQ(links.link_bytes_per_s, 450e9);
  EXPECT_DOUBLE_EQ(links.network_bytes_per_s, 50e9);
  EXPECT_TRUE(links.in_switch_reduction);
  // nccl-tests #290: 4 GiB over eight H100 at 474 GB/s on the bus.
  const double seconds = collective(links, Collective::kAllReduce, {.ranks = 8, .per_host = 8}, 4294967296.0).seconds;
  EXPECT_NEAR(2 * 7 / 8.0 * 4294967296.0 / seconds / 1e9, 474, 5);
}

}  // namespace
}  // namespace scalai::step
