#include "sim/network.h"

#include <limits>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "sim/network_cases.h"

namespace scalai::sim {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr uint64_t kSeed = 20240611;
constexpr int kRandomScripts = 1000;

Replay replay_alone(const FlowScript& script) {
  Replay result;
  const absl::Status status = with_backend(BackendKind::kMaxMin, script.network,
                                           [&](NetworkBackend& backend) { result = replay(script, backend); });
  EXPECT_TRUE(status.ok()) << message_of(status);
  return result;
}

NetworkSpec one_link() { return {{{"l", 100}}, {{"a", {0}, {}}, {"b", {}, {}}}}; }

void with_one_link(const std::function<void(NetworkBackend&)>& body) {
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
  EXPECT_EQ(maxmin_rates(capacities, routes), (std::vector<double>{50, 50, 50}));
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
    const std::vector<double> rates = maxmin_rates(capacities, routes);
    const std::vector<double> expected = oracle_rates(capacities, routes);
    for (size_t i = 0; i < routes.size(); ++i) {
      if (routes[i].empty())
        EXPECT_EQ(rates[i], kForever);
      else
        EXPECT_NEAR(rates[i], expected[i], 1e-9 * expected[i]) << "flow " << i;
    }
  }
}

TEST(MaxMin, TimePassesWithoutFlows) {
  with_one_link([](NetworkBackend& backend) {
    EXPECT_TRUE(backend.advance_to(5).empty());
    EXPECT_EQ(backend.now_s(), 5);
    EXPECT_TRUE(backend.advance_to(5).empty());
  });
}

TEST(MaxMin, FlowsOutliveATimeout) {
  with_one_link([](NetworkBackend& backend) {
    const FlowId flow = backend.start(0, 1, 1000);
    EXPECT_TRUE(backend.advance_to(3).empty());
    EXPECT_EQ(backend.link_rates(), std::vector<double>{100});
    const std::vector<FlowEnd> ends = backend.advance_to(kForever);
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_EQ(ends[0].flow, flow);
    EXPECT_EQ(ends[0].at_s, 10);
    EXPECT_EQ(backend.link_rates(), std::vector<double>{0});
  });
}

TEST(MaxMin, FlowsThatEndTogetherAreReportedTogetherById) {
  with_one_link([](NetworkBackend& backend) {
    for (int i = 0; i < 7; ++i) backend.start(0, 1, 0.1);
    const std::vector<FlowEnd> ends = backend.advance_to(kForever);
    ASSERT_EQ(ends.size(), 7u);
    for (FlowId i = 0; i < 7; ++i) EXPECT_EQ(ends[i].flow, i);
  });
}

TEST(MaxMin, AFailureThatWasNotReportedYetCanBeCancelled) {
  with_one_link([](NetworkBackend& backend) {
    const FlowId flow = backend.start(0, 1, 1000);
    backend.set_bandwidth(0, 0);
    backend.cancel(flow);
    EXPECT_TRUE(backend.advance_to(1).empty());
  });
}

TEST(WithBackend, RejectsBadNetworks) {
  const auto nothing = [](NetworkBackend&) { FAIL() << "ran on a bad network"; };
  NetworkSpec repeated = one_link();
  repeated.links.push_back(repeated.links[0]);
  NetworkSpec still = one_link();
  still.links[0].bandwidth_bytes_per_s = 0;
  NetworkSpec unknown = one_link();
  unknown.endpoints[0].down = {1};
  for (const NetworkSpec& spec : {repeated, still, unknown}) {
    const absl::Status status = with_backend(BackendKind::kMaxMin, spec, nothing);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message_of(status);
  }
}

}  // namespace
}  // namespace scalai::sim
