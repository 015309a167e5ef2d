#include "sim/jobs/planned/internal/change_stages.h"

#include <gtest/gtest.h>

#include <map>

#include "ptc/state/collection/megatron.h"
#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs::internal {
namespace {

class ChangeStagesTest : public ::testing::Test {
 protected:
  ChangeStagesTest()
      : model_(job_model({.model = "gpt2", .global_batch = 64}).value()), cluster_(testing::cluster_of({.hosts = 4})) {}

  std::vector<DeviceId> first_devices(int count) const {
    std::vector<DeviceId> devices;
    for (int d = 0; d < count; ++d) devices.emplace_back(d);
    return devices;
  }
  ChangePlanner::Planned plan(const ChangeStrategy& strategy, const std::string& from, const std::string& to,
                              ChangePlanner::Source source = ChangePlanner::Source::kDevices) const {
    const auto old = collection::parse_layout(from).value();
    const HeldState held{.model = &model_, .config = old, .devices = first_devices(old.world())};
    const Configuration target{
        .model = &model_, .config = collection::parse_layout(to).value(), .training = model_.training};
    return ChangePlanner(cluster_, strategy)
        .plan({.from = &held, .lost = {}, .to = &target, .devices = first_devices(target.gpus()), .source = source})
        .value();
  }
  static int64_t bytes_of(const ChangeStage& stage) {
    int64_t bytes = 0;
    if (stage.flows != nullptr) {
      for (const FlowGroup::Flow& flow : stage.flows->flows) bytes += flow.bytes;
    }
    return bytes;
  }

  JobModel model_;
  cluster::Cluster cluster_;
};

TEST_F(ChangeStagesTest, CostsOfTheStrategyAreInTheirPlaces) {
  const ChangeStrategy strategy{
      .costs = {.plan_s = 1, .restart_s = 2, .verify_bytes_per_s = 1e9, .communicator_s = 7, .transfer_start_s = 0.5}};
  const auto planned = plan(strategy, "tp4", "tp4,dp2");
  const std::vector<ChangeStage>& stages = planned.shape->stages;
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[0].wait_s, 3);
  EXPECT_FALSE(stages[0].is_transfer);
  EXPECT_EQ(stages[1].wait_s, 0.5);
  EXPECT_TRUE(stages[1].is_transfer);
  EXPECT_EQ(bytes_of(stages[1]), planned.shape->bytes.moved() + planned.shape->bytes.same_device);
  std::map<Place, int64_t> received;
  int64_t most = 0;
  for (const FlowGroup::Flow& flow : stages[1].flows->flows) most = std::max(most, received[flow.dst] += flow.bytes);
  EXPECT_NEAR(stages[2].wait_s, 7 + static_cast<double>(most) / 1e9, 1e-12);
}

// Stage, wait, pull, upload, load: each new rank's state goes over its PCIe, replicas stage once.
TEST_F(ChangeStagesTest, ByWayOfHostMemory) {
  ChangeStrategy strategy{.costs = {.plan_s = 0.1, .restart_s = 65, .transfer_start_s = 0.001}};
  strategy.planner = {.name = "tenplex", .in_place = false, .sources = plan::SourceRule::kFirstReplica};
  strategy.placement = {};
  const auto planned = plan(strategy, "tp4,dp2", "tp4,dp3");
  const std::vector<ChangeStage>& stages = planned.shape->stages;
  ASSERT_EQ(stages.size(), 5U);
  const int64_t state = bytes_of(stages[4]) / 3;
  EXPECT_EQ(bytes_of(stages[0]), state);  // one of the two replicas stages its own
  EXPECT_EQ(stages[1].wait_s, 0.1 + 65);
  // Everything is written into the new hosts' memory; padding does not travel.
  EXPECT_LE(bytes_of(stages[3]), 3 * state);
  EXPECT_GT(bytes_of(stages[3]), 3 * state - state / 50);
  for (const FlowGroup::Flow& flow : stages[3].flows->flows) EXPECT_EQ(flow.src, flow.dst);
  for (const FlowGroup::Flow& flow : stages[4].flows->flows) {
    EXPECT_EQ(flow.src, (Place{.host = flow.dst.host}));
    EXPECT_GE(flow.dst.gpu, 0);
  }
  for (const ChangeStage& stage : stages) EXPECT_EQ(stage.is_transfer, &stage == &stages[2] || &stage == &stages[3]);
}

TEST_F(ChangeStagesTest, AHubHasAllFlows) {
  ChangeStrategy strategy{.costs = {.plan_s = 0.1, .transfer_start_s = 0.001}};
  strategy.planner = {
      .name = "central", .in_place = false, .sources = plan::SourceRule::kFirstReplica, .hub = HostId(0)};
  strategy.placement = {};
  const auto planned = plan(strategy, "tp4,dp2", "tp4,dp3");
  for (const ChangeStage& stage : planned.shape->stages) {
    if (stage.flows == nullptr) continue;
    for (const FlowGroup::Flow& flow : stage.flows->flows) {
      const int hub = flow.src.gpu < 0 ? flow.src.host : flow.dst.host;
      EXPECT_EQ(planned.hosts[static_cast<size_t>(hub)], HostId(0));
    }
  }
}

// Nothing moves between GPUs: all that is kept comes back from each host's memory.
TEST_F(ChangeStagesTest, BackFromHostMemory) {
  const auto planned = plan({}, "tp4,dp2", "tp4,dp2", ChangePlanner::Source::kHostMemory);
  const auto restore = std::find_if(planned.shape->stages.begin(), planned.shape->stages.end(),
                                    [](const ChangeStage& stage) { return stage.flows != nullptr; });
  ASSERT_NE(restore, planned.shape->stages.end());
  EXPECT_EQ(bytes_of(*restore), planned.shape->bytes.kept);
  ASSERT_EQ(restore->flows->flows.size(), 8U);
  for (const FlowGroup::Flow& flow : restore->flows->flows) {
    EXPECT_TRUE(flow.src_process);
    EXPECT_EQ(flow.src, (Place{.host = flow.dst.host}));
  }
}

}  // namespace
}  // namespace scalai::jobs::internal
