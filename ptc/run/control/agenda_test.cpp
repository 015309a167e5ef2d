#include "ptc/run/control/agenda.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "ptc/cost/change/maxmin.h"
#include "ptc/plan/estimate.h"
#include "ptc/run/control/control.h"
#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace agenda_test {

using plan::Location;
using testing::Driver;
using What = change::Stage::What;

Location gpu(int index) { return Location::device(DeviceId(index)); }
Location memory(int host) { return Location::host_memory(HostId(host)); }
constexpr int64_t kGB = 1'000'000'000;
constexpr double kNever = std::numeric_limits<double>::infinity();

// An execution of a real plan: 4 → 8 devices in several rounds.
Execute grow(Driver& driver) {
  driver.feed(10, TimerFired{1});
  return driver.feed(10, StepReached{0, 10}).empty() ? Execute{} : driver.only<Execute>();
}

TEST(StagesOf, AreInOrderAndSumUpToTheEstimate) {
  Driver driver("until: \"100s\" planner { round_bytes: \"200kB\" }\n" +
                testing::job_text("a",
                                  "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } "
                                  "configs { layout: \"tp2,pp2,dp2\" step_time: \"600ms\" }") +
                "events { at: \"10s\" resize { gpus: 8 } }\n");
  Execute execute = grow(driver);
  ASSERT_TRUE(execute.plan.has_value());
  execute.costs = {.plan_s = 2,
                   .restart_s = 3,
                   .allocate_bytes_per_s = 2e6,
                   .verify_bytes_per_s = 1e6,
                   .communicator_s = 5,
                   .transfer_start_s = 0.25};
  execute.stage = {{gpu(0), memory(0), 2 * kGB}};
  execute.load = {{memory(0), gpu(0), 4 * kGB}};
  const cluster::Cluster& cluster = driver.scenario().cluster;
  const change::Change change = change_of(execute, cluster);
  const std::vector<change::Stage> stages = change::stages_of(change);
  const std::vector<double> rounds = plan::round_seconds(*execute.plan, cluster);
  ASSERT_GT(rounds.size(), 1u);
  ASSERT_EQ(stages.size(), rounds.size() + 6);

  const PhaseSeconds phases = change::estimate(change);
  double transfer_s = 0;
  for (const double seconds : rounds) transfer_s += seconds + (seconds > 0 ? 0.25 : 0);
  int64_t most = 0;  // received by a device
  std::map<DeviceId, int64_t> received;
  execute.plan->for_each_operation([&](const plan::Operation& operation) {
    if (operation.transfer_class != plan::TransferClass::kKept)
      most = std::max(most, received[operation.dst] += operation.bytes);
  });
  EXPECT_DOUBLE_EQ(phases.stop, 1 / cluster::kPcieShare);
  EXPECT_DOUBLE_EQ(phases.plan, 2);
  EXPECT_DOUBLE_EQ(phases.restart, 3);
  EXPECT_DOUBLE_EQ(phases.prepare, plan::allocate_seconds(*execute.plan, 2e6));
  EXPECT_GT(phases.prepare, 0);
  EXPECT_DOUBLE_EQ(phases.transfer, transfer_s);
  EXPECT_DOUBLE_EQ(phases.verify, static_cast<double>(most) / 1e6);
  EXPECT_DOUBLE_EQ(phases.resume, 5 + 2 / cluster::kPcieShare);

  double waits_s = 0;
  for (const change::Stage& stage : stages) waits_s += stage.wait_s;
  EXPECT_NEAR(waits_s, 2 + 3 + 5 + phases.prepare + 0.25 * static_cast<double>(rounds.size()) + phases.verify, 1e-9);

  // What the control loop hears: the transfer begins, then each round.
  EXPECT_EQ(stages[3].what, What::kPrepare);
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool is_round = stages[i].what == What::kRound;
    EXPECT_EQ(stages[i].mark, i < 3 || i > 3 + rounds.size() ? -1 : static_cast<int>(i) - 3) << i;
    EXPECT_EQ(stages[i].round, is_round ? static_cast<int>(i) - 4 : -1) << i;
  }
}

class AgendaTest : public ::testing::Test {
 protected:
  cluster::Cluster cluster_ = testing::scenario_of(std::string(testing::kSmallCluster) + "until: \"1s\"\n" +
                                                   testing::job_text("a", "gpus: 2 configs { layout: \"tp2\" }"))
                                  ->cluster;
  change::Platform platform_{cluster_};
  change::MaxMinBackend network_{platform_.spec()};
  Recorder recorder_;
  Agenda agenda_{cluster_, platform_, network_, recorder_};
};

TEST_F(AgendaTest, ThingsHappenInTheirOrder) {
  agenda_.train({.job = 0, .start_s = 1, .until_step = 4, .step_s = 2, .devices = {DeviceId(0)}});
  agenda_.arm({.timer = 7, .at_s = 3});
  agenda_.background({.job = 0, .tag = 5, .flows = {{gpu(0), memory(0), 12 * kGB}}});  // 6 s over PCIe
  EXPECT_FALSE(agenda_.next(2));
  EXPECT_EQ(agenda_.now_s(), 2);
  EXPECT_EQ(std::get<Agenda::TimerEnd>(*agenda_.next(kNever)).timer, 7);
  EXPECT_EQ(std::get<Agenda::CopyEnd>(*agenda_.next(kNever)).tag, 5);
  EXPECT_NEAR(agenda_.now_s(), 6, 1e-9);
  const auto end = std::get<Agenda::TrainEnd>(*agenda_.next(kNever));
  EXPECT_EQ(end.step, 4);
  EXPECT_TRUE(agenda_.counts(end));
  EXPECT_EQ(agenda_.now_s(), 9);
  EXPECT_TRUE(agenda_.idle());
  EXPECT_FALSE(agenda_.next(kNever));
}

TEST_F(AgendaTest, ALossEndsTrainingAndIsKnownLater) {
  agenda_.train({.job = 0, .until_step = 4, .step_s = 2, .devices = {DeviceId(0)}});
  EXPECT_EQ(agenda_.fail({.devices = {DeviceId(0)}}, 5), std::vector<DeviceId>{DeviceId(0)});
  EXPECT_TRUE(agenda_.unnoticed(DeviceId(0)));
  EXPECT_TRUE(agenda_.fail({.devices = {DeviceId(0)}}, 5).empty()) << "it is dead already";
  const auto loss = std::get<Agenda::LossKnown>(*agenda_.next(kNever));
  EXPECT_EQ(agenda_.now_s(), 5);
  EXPECT_EQ(loss.failed_at_s, 0);
  EXPECT_FALSE(agenda_.unnoticed(DeviceId(0)));
  EXPECT_FALSE(agenda_.next(kNever)) << "its step never ends";
}

TEST_F(AgendaTest, ADeviceThatComesBackTellsOfItsLoss) {
  agenda_.fail({.devices = {DeviceId(0)}}, 5);
  const auto known = agenda_.repair({.devices = {DeviceId(0)}});
  ASSERT_EQ(known.size(), 1U);
  EXPECT_FALSE(agenda_.dead(DeviceId(0)));
  EXPECT_FALSE(agenda_.next(kNever));
}

TEST_F(AgendaTest, FlowsWaitForALinkThatIsDown) {
  agenda_.background({.job = 0, .tag = 5, .flows = {{gpu(0), memory(0), 2 * kGB}}});
  agenda_.fail({.links = {"h0.g0.pcie.up"}}, 0);
  EXPECT_FALSE(agenda_.next(10));
  agenda_.repair({.links = {"h0.g0.pcie.up"}});
  EXPECT_TRUE(agenda_.next(kNever));
  EXPECT_NEAR(agenda_.now_s(), 11, 1e-9) << "all of it is sent again";
}

}  // namespace agenda_test
}  // namespace scalai::control
