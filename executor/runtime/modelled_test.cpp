#include "executor/runtime/modelled.h"

#include <gtest/gtest.h>

#include "ptc/control/control.h"
#include "ptc/control/internal/control_fixture.h"
#include "ptc/plan/estimate.h"

namespace scalai::executor {
namespace {

using control::BulkFlow;
using control::testing::Driver;
using plan::Location;
using What = ModelledStage::What;

// Hosts of two GPUs; NIC 1 GB/s, PCIe 2 GB/s, storage 1 GB/s.
plan::Cluster small_cluster() {
  return control::testing::scenario_of(std::string(control::testing::kSmallCluster) + "until: \"1s\"\n" +
                                       control::testing::job_text("a", "gpus: 2 configs { layout: \"tp2\" }"))
      ->cluster;
}

Location gpu(int index) { return Location::device(DeviceId(index)); }
Location memory(int host) { return Location::host_memory(HostId(host)); }
constexpr int64_t kGB = 1'000'000'000;

TEST(BulkSeconds, NothingTakesNoTime) { EXPECT_EQ(bulk_seconds({}, small_cluster()), 0); }

TEST(BulkSeconds, ADeviceIsReachedOverItsPcie) {
  const plan::Cluster cluster = small_cluster();
  EXPECT_DOUBLE_EQ(bulk_seconds({{gpu(0), memory(0), 3 * kGB}}, cluster), 1.5);
  // Both directions, and both devices, at once; what goes to one place adds up.
  EXPECT_DOUBLE_EQ(
      bulk_seconds({{gpu(0), memory(0), 3 * kGB}, {memory(0), gpu(0), 4 * kGB}, {gpu(1), memory(0), kGB}}, cluster), 2);
  EXPECT_DOUBLE_EQ(bulk_seconds({{gpu(0), memory(0), 3 * kGB}, {gpu(0), memory(0), kGB}}, cluster), 2);
}

TEST(BulkSeconds, OtherHostsAreReachedOverTheNics) {
  const plan::Cluster cluster = small_cluster();
  EXPECT_DOUBLE_EQ(bulk_seconds({{gpu(0), memory(1), kGB}}, cluster), 1) << "the NIC of the receiver";
  // Two senders, one receiver.
  EXPECT_DOUBLE_EQ(bulk_seconds({{memory(0), memory(2), kGB}, {memory(1), memory(2), 2 * kGB}}, cluster), 3);
}

TEST(BulkSeconds, StorageIsSharedByAll) {
  plan::Cluster cluster = small_cluster();
  EXPECT_DOUBLE_EQ(bulk_seconds({{gpu(0), Location::storage(), kGB}, {gpu(7), Location::storage(), kGB}}, cluster), 2);
  // Writing does not slow reading; memory to storage is not held up by the host's NICs.
  EXPECT_DOUBLE_EQ(
      bulk_seconds({{memory(0), Location::storage(), kGB}, {Location::storage(), gpu(0), 3 * kGB}}, cluster), 3);
  cluster.storage_write_bytes_per_s = 0;
  EXPECT_DOUBLE_EQ(bulk_seconds({{gpu(0), Location::storage(), kGB}}, cluster), 0.5) << "storage without a rate";
}

// An execution of a real plan: 4 → 8 devices in several rounds.
control::Execute grow(Driver& driver) {
  driver.feed(10, control::TimerFired{1});
  return driver.feed(10, control::StepReached{0, 10}).empty() ? control::Execute{} : driver.only<control::Execute>();
}

TEST(StagesOf, AreInOrderAndSumUpToTheEstimate) {
  Driver driver("until: \"100s\" planner { round_bytes: \"200kB\" }\n" +
                control::testing::job_text("a",
                                           "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } "
                                           "configs { layout: \"tp2,pp2,dp2\" step_time: \"600ms\" }") +
                "events { at: \"10s\" resize { gpus: 8 } }\n");
  control::Execute execute = grow(driver);
  ASSERT_NE(execute.plan, nullptr);
  execute.plan_s = 2;
  execute.restart_s = 3;
  execute.resume_s = 5;
  execute.allocate_bytes_per_s = 2e6;
  execute.verify_bytes_per_s = 1e6;
  execute.transfer_start_s = 0.25;
  execute.stage = {{gpu(0), memory(0), 2 * kGB}};
  execute.load = {{memory(0), gpu(0), 4 * kGB}};
  const plan::Cluster& cluster = driver.scenario().cluster;
  const std::vector<ModelledStage> stages = stages_of(execute, cluster);
  const std::vector<double> rounds = plan::round_seconds(*execute.plan, cluster);
  ASSERT_GT(rounds.size(), 1u);
  ASSERT_EQ(stages.size(), rounds.size() + 6);

  control::PhaseSeconds phases;
  for (const ModelledStage& stage : stages) phases.*stage.phase += stage.seconds;
  double transfer_s = 0;
  for (const double seconds : rounds) transfer_s += seconds + (seconds > 0 ? 0.25 : 0);
  int64_t largest = 0;
  for (const plan::DeviceMemory& memory : execute.plan->memory) largest = std::max(largest, memory.after);
  EXPECT_DOUBLE_EQ(phases.stop, 1);
  EXPECT_DOUBLE_EQ(phases.plan, 2);
  EXPECT_DOUBLE_EQ(phases.restart, 3);
  EXPECT_DOUBLE_EQ(phases.prepare, plan::allocate_seconds(*execute.plan, 2e6));
  EXPECT_GT(phases.prepare, 0);
  EXPECT_DOUBLE_EQ(phases.transfer, transfer_s);
  EXPECT_DOUBLE_EQ(phases.verify, static_cast<double>(largest) / 1e6);
  EXPECT_DOUBLE_EQ(phases.resume, 7);

  // What the control loop hears: the transfer begins, then each round.
  EXPECT_EQ(stages[3].what, What::kPrepare);
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool is_round = stages[i].what == What::kRound;
    EXPECT_EQ(stages[i].mark, i < 3 || i > 3 + rounds.size() ? -1 : static_cast<int>(i) - 3) << i;
    EXPECT_EQ(stages[i].round, is_round ? static_cast<int>(i) - 4 : -1) << i;
  }
}

}  // namespace
}  // namespace scalai::executor
