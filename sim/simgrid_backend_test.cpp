#include "sim/simgrid_backend.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/base/testing/share.h"
#include "sim/testing/network_cases.h"

namespace scalai::sim {
namespace simgrid_backend_test {

constexpr uint64_t kSeed = 20240611;

// Many scripts in one process, which has one engine only: their networks lie side by side, and they run one by one.
class Scripts {
 public:
  void add(KnownScript known) {
    const change::NetworkSpec& part = known.script.network;
    const ScriptOffset offset{.first_link = static_cast<int>(network_.links.size()),
                              .first_endpoint = static_cast<int>(network_.endpoints.size())};
    for (change::LinkSpec link : part.links) {
      link.name = fmt::format("{}.{}", scripts_.size(), link.name);
      network_.links.push_back(link);
    }
    for (change::EndpointSpec endpoint : part.endpoints) {
      endpoint.name = fmt::format("{}.{}", scripts_.size(), endpoint.name);
      for (int& link : endpoint.up) link += offset.first_link;
      for (int& link : endpoint.down) link += offset.first_link;
      network_.endpoints.push_back(endpoint);
    }
    scripts_.emplace_back(std::move(known), offset);
  }

  void run_all(change::NetworkBackend& backend) const {
    for (const auto& [known, offset] : scripts_) {
      SCOPED_TRACE(known.script.name);
      const Replay result = replay(known.script, backend, offset);
      expect_same_outcomes(result.outcomes, known.expected);
      EXPECT_LE(result.worst_load, 1 + 1e-9);
      if (testing::Test::HasFailure()) return;
    }
  }

  const change::NetworkSpec& network() const { return network_; }

 private:
  change::NetworkSpec network_;
  std::vector<std::pair<KnownScript, ScriptOffset>> scripts_;
};

std::vector<FlowOutcome> maxmin_outcomes(const FlowScript& script) {
  Replay result;
  const absl::Status status = with_backend(BackendKind::kMaxMin, script.network,
                                           [&](change::NetworkBackend& backend) { result = replay(script, backend); });
  EXPECT_TRUE(status.ok()) << message_of(status);
  return result.outcomes;
}

// A->B, A->C, D->C, the last one first: with latencies, SimGrid would give it all of C's link.
KnownScript three_flows_over_two_shared_links() {
  KnownScript known;
  known.script.name = "three flows over two shared links";
  for (const char* name : {"A.up", "B.down", "C.down", "D.up"}) known.script.network.links.push_back({name, 100});
  known.script.network.endpoints = {{"A", {0}, {}}, {"B", {}, {1}}, {"C", {}, {2}}, {"D", {3}, {}}};
  const auto start = [](double at_s, int src, int dst) {
    return FlowAction{.at_s = at_s, .kind = FlowAction::kStart, .src = src, .dst = dst, .bytes = 1000};
  };
  known.script.actions = {start(0, 3, 2), start(1, 0, 1), start(1, 0, 2)};
  // 50 bytes/s each from 1 s; D->C has 900 bytes left and ends at 19 s, the others have 100 left and 50 bytes/s.
  known.expected = {{19}, {21}, {21}};
  return known;
}

TEST(SimGridBackend, AgreesWithKnownAndMaxMinOutcomes) {
  Scripts scripts;
  scripts.add(three_flows_over_two_shared_links());
  for (const KnownScript& known : known_scripts()) scripts.add(known);
  for (int i = 0; i < (soaking() ? 1000 : 300); ++i) {
    const FlowScript script = random_script(kSeed + i);
    scripts.add({script, maxmin_outcomes(script)});
  }
  int runs = 0;
  const auto body = [&](change::NetworkBackend& backend) {
    ++runs;
    scripts.run_all(backend);
    backend.start(0, 1, 1e12);  // still active at the end of the body: must not keep the simulation alive
  };
  const absl::Status status = with_backend(BackendKind::kSimGrid, scripts.network(), body);
  EXPECT_TRUE(status.ok()) << message_of(status);
  EXPECT_EQ(runs, 1);

  const absl::Status second = with_backend(BackendKind::kSimGrid, scripts.network(), body);
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << message_of(second);
  EXPECT_EQ(runs, 1);
}

}  // namespace simgrid_backend_test
}  // namespace scalai::sim
