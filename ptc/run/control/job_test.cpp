#include "ptc/run/control/internal/job.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ptc/run/control/testing/control_fixture.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::control {
namespace {

using plan::Location;
using testing::device_ids;
using Kind = Location::Kind;

// ---- where training stands ------------------------------------------------------------------------------------------

constexpr Training kTraining{.start_s = 100, .from_step = 10, .until_step = 20, .step_s = 2};

TEST(Training, CountsWholeStepsOnly) {
  EXPECT_EQ(kTraining.steps_done_at(99), 10);
  EXPECT_EQ(kTraining.steps_done_at(100), 10);
  EXPECT_EQ(kTraining.steps_done_at(101.999), 10);
  EXPECT_EQ(kTraining.steps_done_at(102), 11);
  EXPECT_EQ(kTraining.steps_done_at(103.5), 11);
  EXPECT_EQ(kTraining.steps_done_at(120), 20);
  EXPECT_EQ(kTraining.steps_done_at(1e300), 20);
}

TEST(Training, StopsAtTheNextBoundaryNotAtThisOne) {
  EXPECT_EQ(kTraining.next_boundary_after(99), 10);
  EXPECT_EQ(kTraining.next_boundary_after(100), 10);
  EXPECT_EQ(kTraining.next_boundary_after(100.001), 11);
  EXPECT_EQ(kTraining.next_boundary_after(102), 11);
  EXPECT_EQ(kTraining.next_boundary_after(102.001), 12);
  EXPECT_EQ(kTraining.next_boundary_after(1e300), 20);
}

TEST(Training, ABoundaryMissedByRoundingCounts) {
  const Training training{.start_s = 0, .from_step = 0, .until_step = 1'000'000, .step_s = 0.1};
  for (int64_t step = 1; step <= 100'000; step += 7) {
    double sum = 0;  // not the same double as step · 0.1
    sum += static_cast<double>(step) / 10;
    ASSERT_EQ(training.steps_done_at(sum), step);
    ASSERT_EQ(training.next_boundary_after(sum), step);
    ASSERT_EQ(training.steps_done_at(sum - 1e-3), step - 1);
    ASSERT_EQ(training.next_boundary_after(sum + 1e-3), step + 1);
  }
}

TEST(Training, NothingHappensWithoutAStepTime) {
  EXPECT_EQ((Training{.start_s = 0, .from_step = 3, .until_step = 9, .step_s = 0}.steps_done_at(50)), 3);
}

// ---- flows ----------------------------------------------------------------------------------------------------------

class Flows : public ::testing::Test {
 protected:
  static collection::Collection state_of(const std::string& layout, const std::vector<int>& devices) {
    const scenario::JobSpec& spec = scenario().jobs[0];
    const auto config = collection::parse_layout(layout);
    SCALAI_CHECK(config.ok(), message_of(config.status()));
    return collection::megatron_collection(spec.model, spec.recipe, *config, device_ids(devices)).value();
  }
  static const scenario::Scenario& scenario() {
    static const scenario::Scenario kScenario =
        testing::scenario_of(testing::kSmallCluster +
                             testing::job_text("a", "gpus: 1 steps: 1 configs { layout: \"tp1\" }"))
            .value();
    return kScenario;
  }
  static const cluster::Cluster& cluster() { return scenario().cluster; }

  static int64_t sum(const std::vector<BulkFlow>& flows) {
    return std::accumulate(flows.begin(), flows.end(), int64_t{0},
                           [](int64_t total, const BulkFlow& flow) { return total + flow.bytes; });
  }
  static int64_t whole(const collection::Collection& collection) {
    int64_t bytes = 0;
    for (const collection::LogicalTensor& tensor : collection.tensors) bytes += tensor.bytes();
    return bytes;
  }
  static const BulkFlow* find(const std::vector<BulkFlow>& flows, Location src, Location dst) {
    const auto found = std::find_if(flows.begin(), flows.end(),
                                    [&](const BulkFlow& flow) { return flow.src == src && flow.dst == dst; });
    return found == flows.end() ? nullptr : &*found;
  }
  static Location g(int index) { return Location::device(DeviceId(index)); }
  static Location mem(int index) { return Location::host_memory(HostId(index)); }
};

TEST_F(Flows, AReplicaHoldsTheWholeState) {
  const auto single = state_of("tp1", {0});
  EXPECT_EQ(state_bytes_of_ranks(single), std::vector<int64_t>{whole(single)});
  const auto twice = state_of("dp2", {0, 2});
  EXPECT_EQ(state_bytes_of_ranks(twice)[0], whole(single));
}

TEST_F(Flows, TheFirstReplicaStagesItsStateOnItsOwnHosts) {
  const auto from = state_of("tp2,dp2", {0, 2, 4, 6});
  const std::vector<int64_t> bytes = state_bytes_of_ranks(from);
  const auto flows = stage_flows(from, {}, cluster(), HostId(), false);
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_EQ(find(flows, g(0), mem(0))->bytes, bytes[0]);
  EXPECT_EQ(find(flows, g(2), mem(1))->bytes, bytes[1]);
}

TEST_F(Flows, AHubTakesEverything) {
  const auto from = state_of("tp2,dp2", {2, 4, 6, 7});
  for (const BulkFlow& flow : stage_flows(from, {}, cluster(), HostId(0), false)) EXPECT_EQ(flow.dst, mem(0));
  for (const BulkFlow& flow : load_flows(from, cluster(), HostId(0))) EXPECT_EQ(flow.src, mem(0));
}

TEST_F(Flows, AnotherReplicaStagesForALostOne) {
  const auto from = state_of("tp2,dp2", {0, 2, 4, 6});
  const auto flows = stage_flows(from, {DeviceId(0)}, cluster(), HostId(), false);
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_NE(find(flows, g(4), mem(2)), nullptr);  // rank (tp 0, dp 1) for (tp 0, dp 0)
  EXPECT_NE(find(flows, g(2), mem(1)), nullptr);
}

TEST_F(Flows, EveryShardOfAZeroOptimizerIsStaged) {
  const auto from = state_of("dp2,zero1", {0, 2});
  const auto flows = stage_flows(from, {}, cluster(), HostId(), false);
  ASSERT_NE(find(flows, g(2), mem(1)), nullptr);
  EXPECT_GE(sum(flows), whole(from));
}

TEST_F(Flows, EveryReplicaStagesWhereAnyMayBeRead) {
  const auto from = state_of("dp2", {0, 2});
  EXPECT_EQ(sum(stage_flows(from, {}, cluster(), HostId(), true)), 2 * whole(from));
  EXPECT_EQ(sum(stage_flows(from, {}, cluster(), HostId(), false)), whole(from));
}

TEST_F(Flows, EveryNewRankLoads) {
  const auto to = state_of("tp2,dp2", {0, 1, 2, 3});
  const auto flows = load_flows(to, cluster(), HostId());
  const std::vector<int64_t> bytes = state_bytes_of_ranks(to);
  ASSERT_EQ(flows.size(), 4u);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(find(flows, mem(rank / 2), g(rank))->bytes, bytes[static_cast<size_t>(rank)]) << rank;
  }
}

TEST_F(Flows, ACheckpointWritesEachBoxOnce) {
  for (const char* layout : {"tp2,dp2", "tp2,pp2", "dp4,zero1", "pp4", "dp4"}) {
    const auto collection = state_of(layout, {0, 2, 4, 6});
    const auto flows = checkpoint_flows(collection);
    EXPECT_EQ(sum(flows), whole(collection)) << layout;
    for (const BulkFlow& flow : flows) EXPECT_EQ(flow.dst, Location::storage());
  }
}

// What every rank holds, asked one by one: the first that holds a box writes it.
TEST_F(Flows, TheFirstRankThatHoldsABoxWritesIt) {
  for (const char* layout : {"tp2,dp2", "dp4,zero1", "pp2,dp2,zero1", "tp2,pp2"}) {
    const auto collection = state_of(layout, {6, 2, 4, 0});
    std::map<Location, int64_t> wanted;
    for (size_t i = 0; i < collection.tensors.size(); ++i) {
      std::set<tensor::Box> written;
      for (int rank = 0; rank < 4; ++rank) {
        for (const auto& piece : collection.pieces(TensorId(static_cast<int>(i)), LogicalRank(rank)).pieces) {
          if (written.insert(piece.box).second)
            wanted[Location::device(collection.device_of_rank[static_cast<size_t>(rank)])] +=
                piece.box.volume() * tensor::size_of(collection.tensors[i].dtype);
        }
      }
    }
    std::map<Location, int64_t> found;
    for (const BulkFlow& flow : checkpoint_flows(collection)) found[flow.src] += flow.bytes;
    EXPECT_EQ(found, wanted) << layout;
  }
  for (const BulkFlow& flow : checkpoint_flows(state_of("tp2,dp2", {6, 2, 4, 0})))
    EXPECT_TRUE(flow.src == g(6) || flow.src == g(2)) << flow.src.str();  // the first replica's
}

}  // namespace
}  // namespace scalai::control
