#include "ptc/cost/change/network.h"
#include "sim/simgrid_backend.h"

#include <limits>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/cost/change/maxmin.h"
#include "sim/testing/network_cases.h"

namespace scalai::sim {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr uint64_t kSeed = 20240611;
constexpr int kRandomScripts = 1000;

Replay replay_alone(const FlowScript& script) {
  Replay result;
  const absl::Status status = with_backend(BackendKind::kMaxMin, script.network,
                                           [&](change::NetworkBackend& backend) { result = replay(script, backend); });
  EXPECT_TRUE(status.ok()) << message_of(status);
  return result;
}

change::NetworkSpec one_link() { return {{{"l", 100}}, {{"a", {0}, {}}, {"b", {}, {}}}}; }

void with_one_link(const std::function<void(change::NetworkBackend&)>& body) {
  ASSERT_TRUE(with_backend(BackendKind::kMaxMin, one_link(), body).ok());
}

TEST(MaxMin, KnownScripts) {
  for (const KnownScript& known : known_scripts()) {
    SCOPED_TRACE(known.script.name);
    expect_same_outcomes(oracle_outcomes(known.script), known.expected);
    const Replay result = replay_alone(known.script);
    expect_same_outcomes(result.outcomes, known.expected);
    EXPECT_LE(result.worst_load, 1 + 1e-9);
  }
}

TEST(MaxMin, RandomScriptsAgreeWithOracle) {
  for (int i = 0; i < kRandomScripts && !HasFailure(); ++i) {
    const FlowScript script = random_script(kSeed + i);
    SCOPED_TRACE(script.name);
    const Replay result = replay_alone(script);
    expect_same_outcomes(result.outcomes, oracle_outcomes(script));
    EXPECT_LE(result.worst_load, 1 + 1e-9);
  }
}

TEST(MaxMin, SameCallsGiveTheSameBits) {
  for (int i = 0; i < 20; ++i) {
    const FlowScript script = random_script(kSeed + i);
    SCOPED_TRACE(script.name);
    const std::vector<FlowOutcome> first = replay_alone(script).outcomes;
    const std::vector<FlowOutcome> second = replay_alone(script).outcomes;
    ASSERT_EQ(first.size(), second.size());
    for (size_t flow = 0; flow < first.size(); ++flow) EXPECT_EQ(first[flow].at_s, second[flow].at_s);
  }
}

// A->B, A->C, D->C: SimGrid with latencies gives D->C all of C's link, 150 bytes/s over a link of 100.
TEST(MaxMin, ThreeFlowsOverTwoSharedLinks) {
  const std::vector<double> capacities = {100, 100, 100, 100};  // A up, B down, C down, D up
  const std::vector<std::vector<int>> routes = {{0, 1}, {0, 2}, {3, 2}};
  EXPECT_EQ(change::maxmin_rates(capacities, routes), (std::vector<double>{50, 50, 50}));
}

TEST(MaxMin, RatesAgreeWithOracle) {
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 1000 && !HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", kSeed, round));
    std::vector<double> capacities(1 + random() % 20);
    for (double& capacity : capacities) capacity = 1 + static_cast<double>(random() % 50);
    std::vector<std::vector<int>> routes(random() % 60);
    for (std::vector<int>& route : routes) {
      for (size_t link = 0; link < capacities.size(); ++link) {
        if (random() % 5 == 0) route.push_back(static_cast<int>(link));
      }
    }
    const std::vector<double> rates = change::maxmin_rates(capacities, routes);
    const std::vector<double> expected = oracle_rates(capacities, routes);
    for (size_t i = 0; i < routes.size(); ++i) {
      if (routes[i].empty())
        EXPECT_EQ(rates[i], kForever);
      else
        EXPECT_NEAR(rates[i], expected[i], 1e-9 * expected[i]) << "flow " << i;
    }
  }
}

// GPUs behind PCIe and NICs: PCIe is never full while all its classes cross a narrower NIC, and may be once others
// come, or capacities change. Counts of classes go up and down; each update is held against rates from scratch.
TEST(MaxMin, LinksThatAreNeverFullForAWhile) {
  for (uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int gpus = static_cast<int>(random.between(2, 6));
    std::vector<double> capacities;  // of each GPU: PCIe up and down, NIC up and down
    for (int link = 0; link < 4 * gpus; ++link)
      capacities.push_back(static_cast<double>(link % 4 < 2 ? random.between(30, 60) : random.between(20, 40)));
    change::FairShares shares(capacities);
    std::vector<std::vector<int>> routes;
    std::vector<int64_t> counts;
    for (int i = 0; i < 4 * gpus; ++i) {
      const int src = 4 * static_cast<int>(random.below(gpus)), dst = 4 * static_cast<int>(random.below(gpus));
      routes.push_back(random.below(4) == 0 ? std::vector<int>{src, dst + 1}
                                            : std::vector<int>{src, src + 2, dst + 3, dst + 1});
      EXPECT_EQ(shares.add_class(routes.back()), i);
      counts.push_back(0);
    }
    for (int step = 0; step < 60 && !HasFailure(); ++step) {
      const auto one = static_cast<size_t>(random.below(static_cast<int64_t>(routes.size())));
      shares.set_count(static_cast<int>(one),
                       counts[one] = counts[one] > 0 && random.below(2) == 0 ? 0 : random.between(1, 3));
      if (random.below(8) == 0) {
        const auto link = static_cast<size_t>(random.below(static_cast<int64_t>(capacities.size())));
        shares.set_capacity(static_cast<int>(link), capacities[link] = static_cast<double>(random.between(10, 60)));
      }
      shares.update();
      std::vector<std::vector<int>> flows;
      std::vector<int> class_of;
      for (size_t c = 0; c < routes.size(); ++c) {
        for (int64_t flow = 0; flow < counts[c]; ++flow) {
          flows.push_back(routes[c]);
          class_of.push_back(static_cast<int>(c));
        }
      }
      const std::vector<double> expected = oracle_rates(capacities, flows);
      std::vector<double> loads(capacities.size(), 0);
      for (size_t flow = 0; flow < flows.size(); ++flow) {
        ASSERT_NEAR(shares.rate(class_of[flow]), expected[flow], 1e-9 * expected[flow]) << "step " << step;
        for (const int link : flows[flow]) loads[static_cast<size_t>(link)] += expected[flow];
      }
      for (size_t link = 0; link < loads.size(); ++link)
        ASSERT_NEAR(shares.load(static_cast<int>(link)), loads[link], 1e-6) << "step " << step << ", link " << link;
    }
  }
}

TEST(MaxMin, ManyCancelledFlowsOfOneClass) {
  with_one_link([](change::NetworkBackend& backend) {
    std::vector<change::FlowId> flows;
    for (int i = 0; i < 10; ++i) flows.push_back(backend.start(0, 1, 10.0 * (i + 1)));
    for (const int cancelled : {0, 1, 5, 9}) backend.cancel(flows[static_cast<size_t>(cancelled)]);
    std::vector<change::FlowId> ended;
    while (ended.size() < 6) {
      for (const change::FlowEnd& end : backend.advance_to(kForever)) ended.push_back(end.flow);
    }
    EXPECT_THAT(ended, ::testing::ElementsAre(flows[2], flows[3], flows[4], flows[6], flows[7], flows[8]));
    EXPECT_DOUBLE_EQ(backend.now_s(), (30 + 40 + 50 + 70 + 80 + 90) / 100.0);
    const change::FlowId again = backend.start(0, 1, 50);
    EXPECT_EQ(backend.advance_to(kForever).at(0).flow, again);
  });
}

TEST(MaxMin, TimePassesWithoutFlows) {
  with_one_link([](change::NetworkBackend& backend) {
    EXPECT_TRUE(backend.advance_to(5).empty());
    EXPECT_EQ(backend.now_s(), 5);
    EXPECT_TRUE(backend.advance_to(5).empty());
  });
}

TEST(MaxMin, FlowsOutliveATimeout) {
  with_one_link([](change::NetworkBackend& backend) {
    const change::FlowId flow = backend.start(0, 1, 1000);
    EXPECT_TRUE(backend.advance_to(3).empty());
    EXPECT_EQ(backend.link_rates(), std::vector<double>{100});
    const std::vector<change::FlowEnd> ends = backend.advance_to(kForever);
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_EQ(ends[0].flow, flow);
    EXPECT_EQ(ends[0].at_s, 10);
    EXPECT_EQ(backend.link_rates(), std::vector<double>{0});
  });
}

TEST(MaxMin, FlowsThatEndTogetherAreReportedTogetherById) {
  with_one_link([](change::NetworkBackend& backend) {
    for (int i = 0; i < 7; ++i) backend.start(0, 1, 0.1);
    const std::vector<change::FlowEnd> ends = backend.advance_to(kForever);
    ASSERT_EQ(ends.size(), 7u);
    for (change::FlowId i = 0; i < 7; ++i) EXPECT_EQ(ends[i].flow, i);
  });
}

TEST(MaxMin, AFailureThatWasNotReportedYetCanBeCancelled) {
  with_one_link([](change::NetworkBackend& backend) {
    const change::FlowId flow = backend.start(0, 1, 1000);
    backend.set_bandwidth(0, 0);
    backend.cancel(flow);
    EXPECT_TRUE(backend.advance_to(1).empty());
  });
}

// --- weights: flows that stand for others ----------------------------------------------------------------------------

// `groups` of sources alike: each source has its own link and shares one with its group, all share one more. As it is,
// and with one source a group that weighs as much as all.
struct Alike {
  change::NetworkSpec whole, folded;
  std::vector<int> sources_in_group;
};

Alike random_alike(Random& random, int groups) {
  Alike made;
  const auto add_link = [&](const std::string& name, double bandwidth, bool also_folded) {
    made.whole.links.push_back({name, bandwidth});
    if (also_folded) made.folded.links.push_back({name, bandwidth});
  };
  add_link("all", static_cast<double>(random.between(20, 200)), true);
  for (int g = 0; g < groups; ++g) {
    const int count = static_cast<int>(random.between(1, 5));
    const double own = static_cast<double>(random.between(5, 50));
    made.sources_in_group.push_back(count);
    add_link(fmt::format("group{}", g), static_cast<double>(random.between(10, 100)), true);
    const int shared = static_cast<int>(made.whole.links.size()) - 1;
    const int folded_shared = static_cast<int>(made.folded.links.size()) - 1;
    for (int i = 0; i < count; ++i) {
      add_link(fmt::format("own{}.{}", g, i), own, i == 0);
      const int own_link = static_cast<int>(made.whole.links.size()) - 1;
      made.whole.endpoints.push_back({fmt::format("{}.{}", g, i), {own_link, shared, 0}, {}});
    }
    const int folded_own = static_cast<int>(made.folded.links.size()) - 1;
    made.folded.endpoints.push_back({fmt::format("{}", g), {folded_own, folded_shared, 0}, {}, {1, count, count}});
  }
  made.whole.endpoints.push_back({"end", {}, {}});
  made.folded.endpoints.push_back({"end", {}, {}});
  return made;
}

// When each group's flows end.
std::vector<double> ends_of_groups(const change::NetworkSpec& network, const std::vector<int>& flows_in_group,
                                   const std::vector<double>& bytes, double resolution_s = 0) {
  std::vector<double> ends(flows_in_group.size(), -1);
  change::MaxMinBackend backend(network, resolution_s);
  std::vector<size_t> group_of;
  const int end = static_cast<int>(network.endpoints.size()) - 1;
  for (size_t g = 0; g < flows_in_group.size(); ++g) {
    for (int i = 0; i < flows_in_group[g]; ++i) {
      backend.start(static_cast<int>(group_of.size()), end, bytes[g]);
      group_of.push_back(g);
    }
  }
  for (size_t left = group_of.size(); left > 0;) {
    for (const change::FlowEnd& flow : backend.advance_to(kForever)) {
      ends[group_of[static_cast<size_t>(flow.flow)]] = flow.at_s;
      --left;
    }
  }
  return ends;
}

TEST(MaxMin, AFlowWithWeightsIsAsManyAlike) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int groups = static_cast<int>(random.between(1, 6));
    const Alike alike = random_alike(random, groups);
    std::vector<double> bytes;
    for (int g = 0; g < groups; ++g) bytes.push_back(static_cast<double>(random.between(1, 1000)));
    const std::vector<double> whole = ends_of_groups(alike.whole, alike.sources_in_group, bytes);
    const std::vector<double> folded = ends_of_groups(alike.folded, std::vector<int>(whole.size(), 1), bytes);
    for (size_t g = 0; g < whole.size(); ++g) ASSERT_NEAR(folded[g] / whole[g], 1, 1e-9) << "group " << g;
  }
}

// Two flows of 10 and 11 bytes share 10 bytes/s. The first ends after 2 s; the other one would then after 2.1 s, or at
// the rate that it had, after 2.2 s.
TEST(MaxMin, EndsWithinTheResolutionAreOneMoment) {
  const change::NetworkSpec network = {.links = {{"link", 10}, {"a", 99}, {"b", 99}},
                                       .endpoints = {{"a", {0, 1}, {}}, {"b", {0, 2}, {}}, {"end", {}, {}}}};
  const auto ends = [&](double resolution_s) { return ends_of_groups(network, {1, 1}, {10, 11}, resolution_s); };
  EXPECT_THAT(ends(0), ::testing::ElementsAre(::testing::DoubleEq(2), ::testing::DoubleEq(2.1)));
  EXPECT_THAT(ends(0.19), ::testing::ElementsAre(::testing::DoubleEq(2), ::testing::DoubleEq(2.1)));
  EXPECT_THAT(ends(0.21), ::testing::ElementsAre(::testing::DoubleEq(2.2), ::testing::DoubleEq(2.2)));
  change::MaxMinBackend backend(network, 1);
  backend.start(0, 2, 10);
  backend.start(1, 2, 11);
  EXPECT_EQ(backend.advance_to(2.1).size(), 1u) << "the caller's time comes before the second end";
}

// Each end holds up the others by the resolution at most.
TEST(MaxMin, AResolutionMovesEndsLittle) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int groups = static_cast<int>(random.between(2, 6));
    const Alike alike = random_alike(random, groups);
    std::vector<double> bytes;
    for (int g = 0; g < groups; ++g) bytes.push_back(static_cast<double>(random.between(1, 1000)));
    const std::vector<double> exact = ends_of_groups(alike.whole, alike.sources_in_group, bytes);
    const double resolution_s = *std::max_element(exact.begin(), exact.end()) / 100;
    const std::vector<double> near = ends_of_groups(alike.whole, alike.sources_in_group, bytes, resolution_s);
    for (size_t g = 0; g < exact.size(); ++g) ASSERT_NEAR(near[g], exact[g], groups * resolution_s) << "group " << g;
  }
}

TEST(MaxMin, LinkRatesCountWeights) {
  const change::NetworkSpec network = {.links = {{"own", 10}, {"shared", 24}},
                                       .endpoints = {{"a", {0, 1}, {}, {1, 4}}, {"end", {}, {}}}};
  change::MaxMinBackend backend(network);
  backend.start(0, 1, 100);
  EXPECT_THAT(backend.link_rates(), ::testing::ElementsAre(6, 24));
}

TEST(WithBackend, RejectsBadNetworks) {
  const auto nothing = [](change::NetworkBackend&) { FAIL() << "ran on a bad network"; };
  change::NetworkSpec repeated = one_link();
  repeated.links.push_back(repeated.links[0]);
  change::NetworkSpec still = one_link();
  still.links[0].bandwidth_bytes_per_s = 0;
  change::NetworkSpec unknown = one_link();
  unknown.endpoints[0].down = {1};
  change::NetworkSpec unweighted = one_link();
  unweighted.endpoints[0].up_weights = {1, 2};
  change::NetworkSpec weightless = one_link();
  weightless.endpoints[0].up_weights = {0};
  for (const change::NetworkSpec& spec : {repeated, still, unknown, unweighted, weightless}) {
    const absl::Status status = with_backend(BackendKind::kMaxMin, spec, nothing);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message_of(status);
  }
}

}  // namespace
}  // namespace scalai::sim
