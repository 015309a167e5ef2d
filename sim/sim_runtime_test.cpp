#include "sim/sim_runtime.h"
#include "sim/simgrid_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "ptc/report/report.h"
#include "sim/testing/simulation.h"

namespace scalai::sim {
namespace sim_runtime_test {

using control::BackgroundDone;
using control::DevicesLost;
using control::Event;
using control::StepReached;
using control::TransferRecord;
using control::testing::device_ids;
using control::testing::job_text;
using control::testing::kSmallCluster;
using control::testing::scenario_of;
using plan::Location;

constexpr int64_t kGB = 1'000'000'000;

Location gpu(int device) { return Location::device(DeviceId(device)); }
Location memory(int host) { return Location::host_memory(HostId(host)); }

// ---- the runtime by hand: NIC 1 GB/s, PCIe 2 GB/s, GPU links 4 GB/s, storage 1 GB/s ---------------------------------

class RuntimeTest : public ::testing::Test {
 protected:
  RuntimeTest()
      : scenario_(scenario_of(kSmallCluster + job_text("a", "gpus: 1 steps: 1 configs { layout: \"tp1\" }")).value()),
        platform_(scenario_.cluster) {}

  // Runs `commands` and then everything they lead to; events by time.
  std::vector<Event> run(const std::vector<control::Command>& commands) {
    std::vector<Event> events;
    const absl::Status status =
        with_backend(BackendKind::kMaxMin, platform_.spec(), [&](change::NetworkBackend& backend) {
          SimRuntime runtime(scenario_.cluster, platform_, backend, recorder_);
          for (const control::Command& command : commands) EXPECT_TRUE(runtime.perform(command).ok());
          while (true) {
            const absl::StatusOr<Event> event = runtime.next_event();
            if (!event.ok()) break;
            events.push_back(*event);
            const auto* timer = std::get_if<control::TimerFired>(&event->body);
            if (timer == nullptr) continue;
            for (const control::Command& command : at_timer_.at(static_cast<size_t>(timer->timer))) {
              EXPECT_TRUE(runtime.perform(command).ok());
            }
          }
          runtime.close();
        });
    EXPECT_TRUE(status.ok()) << message_of(status);
    return events;
  }
  // A command that is given at a later time.
  control::Command later(double at_s, std::vector<control::Command> commands) {
    at_timer_.push_back(std::move(commands));
    return control::ArmTimer{static_cast<int64_t>(at_timer_.size()) - 1, at_s};
  }
  static control::Command background(int64_t tag, std::vector<control::BulkFlow> flows) {
    return control::Background{0, tag, "checkpoint", std::move(flows)};
  }
  static control::Command inject(scenario::What what, double detect_s = 0) {
    return control::Inject{std::move(what), detect_s};
  }

  template <class Body>
  static std::vector<double> times_of(const std::vector<Event>& events) {
    std::vector<double> times;
    for (const Event& event : events) {
      if (std::holds_alternative<Body>(event.body)) times.push_back(event.at_s);
    }
    return times;
  }

  scenario::Scenario scenario_;
  change::Platform platform_;
  control::Recorder recorder_;
  std::vector<std::vector<control::Command>> at_timer_;
};

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(RuntimeTest, StepsAreArithmetic) {
  const control::Train train{
      .start_s = 3, .from_step = 10, .until_step = 14, .step_s = 2.5, .devices = device_ids({0})};
  EXPECT_THAT(times_of<StepReached>(run({train})), ElementsAre(13));
}

TEST_F(RuntimeTest, ANewTrainReplacesTheOldOneAndHaltEndsIt) {
  const control::Train train{.until_step = 10, .step_s = 1, .devices = device_ids({0})};
  control::Train shorter = train;
  shorter.until_step = 4;
  EXPECT_THAT(times_of<StepReached>(run({train, later(3.5, {shorter})})), ElementsAre(4));
  EXPECT_THAT(times_of<StepReached>(run({train, later(3.5, {control::Halt{0}})})), IsEmpty());
}

TEST_F(RuntimeTest, AFlowTakesItsBytesOverTheSlowestLink) {
  EXPECT_THAT(times_of<BackgroundDone>(run({background(1, {{gpu(0), gpu(2), 2 * kGB}})})), ElementsAre(2));
  EXPECT_THAT(times_of<BackgroundDone>(run({background(1, {{gpu(0), gpu(1), 2 * kGB}})})), ElementsAre(0.5));
  EXPECT_THAT(times_of<BackgroundDone>(run({background(1, {{gpu(0), memory(0), 2 * kGB}})})), ElementsAre(1));
  EXPECT_THAT(times_of<BackgroundDone>(run({background(1, {})})), ElementsAre(0));
}

TEST_F(RuntimeTest, FlowsShareLinks) {
  // Both leave h0 over its one NIC; the first is done at 2 s, the second has 1 GB left then.
  const auto events = run({background(1, {{gpu(0), gpu(2), kGB}}), background(2, {{gpu(1), gpu(4), 2 * kGB}})});
  EXPECT_THAT(times_of<BackgroundDone>(events), ElementsAre(2, 3));
}

TEST_F(RuntimeTest, ALinkThatFailsStallsItsFlowsUntilItIsBack) {
  const std::vector<std::string> links = {"h0.nic0.up"};
  const auto events =
      run({background(1, {{gpu(0), gpu(2), 2 * kGB}}), later(1, {inject(scenario::Fail{.links = links})}),
           later(5, {inject(scenario::Repair{.links = links})})});
  EXPECT_THAT(times_of<BackgroundDone>(events), ElementsAre(7)) << "all of it is sent again";
  ASSERT_EQ(recorder_.transfers.size(), 1u);
  EXPECT_EQ(recorder_.transfers[0].status, "done");
}

TEST_F(RuntimeTest, ALinkThatStaysDownNeverDelivers) {
  const auto events =
      run({background(1, {{gpu(0), gpu(2), 2 * kGB}}), later(1, {inject(scenario::Fail{.links = {"h1.nic0.down"}})}),
           later(2, {inject(scenario::Degrade{.links = {"h1.nic0.down"}, .factor = 0.5}),
                     background(2, {{gpu(1), gpu(3), kGB}})})});
  EXPECT_THAT(times_of<BackgroundDone>(events), IsEmpty());
  ASSERT_EQ(recorder_.transfers.size(), 2u);
  for (const TransferRecord& transfer : recorder_.transfers) EXPECT_EQ(transfer.status, "aborted");
}

TEST_F(RuntimeTest, ADegradedLinkIsSlowerFromThenOn) {
  const scenario::Degrade half{.links = {"h0.nic0.up"}, .factor = 0.5};
  EXPECT_THAT(times_of<BackgroundDone>(run({inject(half), background(1, {{gpu(0), gpu(2), 2 * kGB}})})),
              ElementsAre(4));
  EXPECT_THAT(times_of<BackgroundDone>(run({background(1, {{gpu(0), gpu(2), 2 * kGB}}), later(1, {inject(half)})})),
              ElementsAre(3));
}

TEST_F(RuntimeTest, ALostDeviceTakesItsFlowsAndStepsWithItAndIsNoticedLater) {
  const control::Train train{.until_step = 100, .step_s = 1, .devices = device_ids({1, 2})};
  const auto events =
      run({train, background(1, {{gpu(0), gpu(2), 3 * kGB}}), background(2, {{gpu(0), gpu(4), 3 * kGB}}),
           later(2, {inject(scenario::Fail{.devices = device_ids({2})}, 5)})});
  EXPECT_THAT(times_of<StepReached>(events), IsEmpty());
  EXPECT_THAT(times_of<BackgroundDone>(events), ElementsAre(4)) << "the other flow has the NIC to itself from 2 s on";
  ASSERT_THAT(times_of<DevicesLost>(events), ElementsAre(7));
  const auto& lost = std::get<DevicesLost>(events.back().body);
  EXPECT_EQ(lost.devices, device_ids({2}));
  EXPECT_EQ(lost.failed_at_s, 2);
}

TEST_F(RuntimeTest, ADeviceRepairedBeforeItsLossIsNoticedDoesNotTrainOn) {
  const control::Train train{.until_step = 100, .step_s = 1, .devices = device_ids({1, 2})};
  const auto events = run({train, later(2, {inject(scenario::Fail{.devices = device_ids({2})}, 5)}),
                           later(3, {inject(scenario::Repair{.devices = device_ids({2})})})});
  EXPECT_THAT(times_of<StepReached>(events), IsEmpty()) << "its memory is gone";
  EXPECT_THAT(times_of<DevicesLost>(events), ElementsAre(3)) << "known at the latest when the device is back";
}

TEST_F(RuntimeTest, HostMemoryDiesWithTheLastDeviceOfItsHost) {
  const auto one = run(
      {background(1, {{gpu(0), memory(1), 2 * kGB}}), later(1, {inject(scenario::Fail{.devices = device_ids({2})})})});
  EXPECT_THAT(times_of<BackgroundDone>(one), ElementsAre(2));
  const auto both = run({background(1, {{gpu(0), memory(1), 2 * kGB}}),
                         later(1, {inject(scenario::Fail{.devices = device_ids({2, 3})})})});
  EXPECT_THAT(times_of<BackgroundDone>(both), IsEmpty());
}

// ---- whole scenarios ------------------------------------------------------------------------------------------------

// The tiny model's state, 14 bytes a parameter and the cursors, is 3.4 MB.
class ScenarioRun : public ::testing::Test {
 protected:
  void simulate(const std::string& text, const std::string& strategy = "reshard", const char* cluster = kSmallCluster) {
    scenario_ = scenario_of(cluster + text).value();
    report_ = testing::simulate(scenario_, scenario::find_strategy(strategy, scenario_.costs).value());
  }
  const control::ReconfigurationRecord& reconfiguration(size_t k) const {
    return report_.jobs[0].reconfigurations.at(k);
  }
  const control::PhaseSeconds& phases(size_t k) const { return reconfiguration(k).phases; }

  scenario::Scenario scenario_;
  control::RunReport report_;
};

constexpr double kRounding = 1e-9;
constexpr double kNic = 0.9 * 1e9, kPcie = cluster::kPcieShare * 2e9;  // what transfers reach
const std::string kOneGpu =
    "until: \"100s\"\n" +
    job_text("a", "devices: [0] configs { layout: \"tp1\" step_time: \"1s\" } checkpoint { every_steps: 1000 }");
const std::string kMove = "events { at: \"10s\" redeploy { devices: [2] } }\n";

TEST_F(ScenarioRun, ARedeployOverOneNicTakesItsBytesOverItsRate) {
  simulate(kOneGpu + kMove +
           "costs { transfer_start: \"2s\" communicator: \"3s\" plan: \"4s\" verify_rate: \"1MB/s\" "
           "allocate_rate: \"2MB/s\" }");
  const double bytes = static_cast<double>(reconfiguration(0).plan->bytes().cross_host);
  EXPECT_GT(bytes, 3e6);
  // One peer, and as many boxes as operations: nothing stays.
  const auto boxes = static_cast<double>(reconfiguration(0).plan->operations().size());
  EXPECT_GT(boxes, 100);
  EXPECT_NEAR(phases(0).transfer, 2 + boxes * 3e-6 + 15e-6 + bytes / kNic, kRounding);
  EXPECT_NEAR(phases(0).prepare, bytes / 2e6, kRounding);
  EXPECT_NEAR(phases(0).verify, bytes / 1e6, kRounding);
  EXPECT_EQ(phases(0).plan, 4);
  EXPECT_NEAR(phases(0).resume, 3, kRounding);
  EXPECT_EQ(phases(0).stop, 0);
  EXPECT_NEAR(reconfiguration(0).resumed_s, 10 + phases(0).total(), kRounding);
  EXPECT_NEAR(report_.jobs[0].training_s, std::floor(100 - phases(0).total()), kRounding);
}

TEST_F(ScenarioRun, AStagedRedeployGoesThroughStores) {
  simulate(kOneGpu + kMove + "costs { transfer_start: \"0s\" communicator: \"0s\" restart: \"7s\" box: \"1ms\" }",
           "tenplex");
  const double tensors = static_cast<double>(reconfiguration(0).plan->tensors().size());
  const double bytes = static_cast<double>(reconfiguration(0).plan->bytes().cross_host);
  EXPECT_NEAR(phases(0).stop, bytes / kPcie, kRounding);  // gpu 0 → h0.mem over PCIe
  EXPECT_NEAR(phases(0).restart, 7, kRounding);
  // A request to a store for each tensor; h0.mem → a process on h1, then its store, which beside slow PCIe takes in 2/3
  // of 4 GB/s.
  EXPECT_NEAR(phases(0).transfer, 0.001 * tensors + bytes / kNic + bytes / (4e9 / 1.5), kRounding);
  EXPECT_NEAR(phases(0).resume, bytes / kPcie, kRounding);  // h1.mem → gpu 2
}

TEST_F(ScenarioRun, ALinkThatIsDownHoldsAReconfigurationUp) {
  simulate(kOneGpu + kMove +
           "events { at: \"9s\" fail { links: \"h0.nic0.up\" leave: false } } events { at: \"30s\" repair { links: "
           "\"h0.nic0.up\" } }"
           "costs { transfer_start: \"0s\" plan: \"0s\" communicator: \"0s\" }");
  const double bytes = static_cast<double>(reconfiguration(0).plan->bytes().cross_host);
  EXPECT_NEAR(phases(0).transfer, 20 + bytes / kNic, kRounding);
  std::map<size_t, double> happened;  // by event
  for (const control::ScriptRecord& one : report_.script) happened[one.event] = one.at_s;
  EXPECT_EQ(happened.size(), 3u);
  EXPECT_EQ(happened[1], 9);
  EXPECT_EQ(happened[2], 30);
}

TEST_F(ScenarioRun, ASwitchThatIsDownHoldsAReconfigurationUp) {
  simulate(kOneGpu + kMove +
           "events { at: \"9s\" fail { switches: \"fabric\" leave: false } } events { at: \"30s\" repair { switches: "
           "\"fabric\" } }"
           "costs { transfer_start: \"0s\" plan: \"0s\" communicator: \"0s\" }");
  const double bytes = static_cast<double>(reconfiguration(0).plan->bytes().cross_host);
  EXPECT_NEAR(phases(0).transfer, 20 + bytes / kNic, kRounding);
}

// Two racks of two hosts. The job has a replica in each; the first rack dies, and it goes on in the second.
TEST_F(ScenarioRun, AJobSpreadOverRacksSurvivesTheLossOfOne) {
  std::string racked = kSmallCluster;
  racked.insert(racked.find("storage {"), "rack_hosts: 2 ");
  simulate("until: \"100s\"\n" +
               job_text("a",
                        "gpus: 4 configs { layout: \"dp4\" step_time: \"1s\" } "
                        "configs { layout: \"dp2\" step_time: \"1s\" }") +
               "events { at: \"5s\" redeploy { devices: [0, 2, 4, 6] } } events { at: \"50s\" fail { racks: 0 } }",
           "reshard", racked.c_str());
  ASSERT_EQ(report_.jobs[0].reconfigurations.size(), 2u);
  EXPECT_EQ(reconfiguration(1).cause, "lost g0-g3");
  EXPECT_EQ(report_.jobs[0].state, "running");
  EXPECT_EQ(reconfiguration(1).plan->dst_devices(), device_ids({4, 6})) << "its devices in the other rack";
  EXPECT_EQ(report_.jobs[0].lost_steps, 0);
}

// Steps of 1 s, a checkpoint every 8 of them. The mean downtime of 32 runs whose failures cover the 8 s between two
// checkpoints is what the report of any of them expects, and none lies outside its range.
TEST_F(ScenarioRun, TheExpectedDowntimeIsTheMeanOverMoments) {
  const auto downtime = [&](double at_s) {
    simulate("until: \"200s\"\n" +
             job_text("a",
                      "gpus: 4 checkpoint { every_steps: 8 } configs { layout: \"tp4\" step_time: \"1s\" } "
                      "configs { layout: \"tp2\" step_time: \"1s\" }") +
             fmt::format("events {{ at: \"{}s\" fail {{ hosts: 1 }} }}", at_s));
    const nlohmann::json job = nlohmann::json::parse(report::summary_json(report_))["jobs"][0];
    EXPECT_TRUE(job.contains("any_moment")) << at_s;
    return job;
  };
  const nlohmann::json any = downtime(100.125)["any_moment"];
  double sum_s = 0;
  for (int k = 0; k < 32; ++k) {
    const nlohmann::json job = downtime(100.125 + k / 4.0);
    const double down_s =
        job["downtime_s"].get<double>() - report_.jobs[0].downtime.cut_off_s + reconfiguration(0).failed->cut_off_s;
    EXPECT_GE(down_s, any["downtime_low_s"].get<double>() - 1e-3);
    EXPECT_LE(down_s, any["downtime_high_s"].get<double>() + 1e-3);
    EXPECT_NEAR(job["any_moment"]["downtime_expected_s"].get<double>(), any["downtime_expected_s"].get<double>(), 1e-3)
        << "but for the stall of a copy more or less, 0.6 ms";
    sum_s += down_s / 32;
  }
  EXPECT_NEAR(any["downtime_expected_s"].get<double>(), sum_s, 0.05);
  EXPECT_NEAR(any["interval_s"].get<double>(), 8, kRounding);
}

TEST_F(ScenarioRun, ADegradedLinkDoublesTheTransfer) {
  const std::string costs = "costs { transfer_start: \"0s\" box: \"0s\" peer: \"0s\" }";
  simulate(kOneGpu + kMove + costs);
  const double nominal = phases(0).transfer;
  simulate(kOneGpu + kMove + "events { at: \"9s\" degrade { links: \"h1.nic0.down\" factor: 0.5 } }" + costs);
  EXPECT_NEAR(phases(0).transfer, 2 * nominal, kRounding);
}

TEST_F(ScenarioRun, ATargetLostInMidTransferIsReplaced) {
  simulate(kOneGpu + kMove +
           "events { during { reconfiguration: 1 delay: \"1ms\" } fail { devices: [2] } }"
           "costs { transfer_start: \"0s\" detect: \"3s\" plan: \"0s\" }");
  ASSERT_EQ(report_.jobs[0].state, "waiting") << "it was told to go to g2 and nowhere else";
  EXPECT_EQ(reconfiguration(0).aborted_attempts, 1);
  EXPECT_NEAR(phases(0).aborted, 3.001, kRounding);
  ASSERT_EQ(report_.recorder.transfers.size(), 1u);
  EXPECT_EQ(report_.recorder.transfers[0].status, "aborted");
  EXPECT_NEAR(report_.recorder.transfers[0].end_s, 10.001, kRounding);
}

TEST_F(ScenarioRun, ACheckpointUnderWaySlowsAReconfiguration) {
  const std::string job =
      "until: \"100s\"\n" +
      job_text("a", "devices: [0] checkpoint { every_steps: 10 } configs { layout: \"tp1\" step_time: \"1s\" }");
  const std::string costs = "costs { transfer_start: \"0s\" plan: \"0s\" box: \"0s\" peer: \"0s\" }";
  simulate(job + "events { at: \"15s\" redeploy { devices: [2] } }" + costs);
  const double alone = phases(0).transfer;
  // Both start at step 10 and leave h0 over the same NIC.
  simulate(job + "events { at_step { step: 10 } redeploy { devices: [2] } }" + costs);
  EXPECT_NEAR(phases(0).transfer, 2 * alone, kRounding + 1e-6);
}

// Two devices on h0, a job on one of them that may grow to both.
const std::string kMayGrow =
    "until: \"100s\"\n" + job_text("a",
                                   "devices: [0] configs { layout: \"dp1\" step_time: \"1s\" } "
                                   "configs { layout: \"dp2\" step_time: \"1s\" }");

TEST_F(ScenarioRun, AFailureAfterARepairAtTheSameTimeCounts) {
  const std::string grow = "events { at: \"60s\" resize { gpus: 2 } }";
  const std::string fail = "events { at: \"50s\" fail { devices: [1] } }";
  const std::string repair = "events { at: \"50s\" repair { devices: [1] } }";
  simulate(kMayGrow + "events { at: \"20s\" fail { devices: [1] } }" + repair + fail + grow);
  EXPECT_EQ(reconfiguration(0).plan->dst_devices(), device_ids({0, 2})) << "device 1 is dead";
  simulate(kMayGrow + fail + repair + grow);
  EXPECT_EQ(reconfiguration(0).plan->dst_devices(), device_ids({0, 1})) << "device 1 is back";
}

TEST_F(ScenarioRun, ALossBeforeTheJobTookTheDeviceDoesNotConcernIt) {
  simulate(kMayGrow +
           "events { at: \"20s\" fail { devices: [1] } } events { at: \"25s\" repair { devices: [1] } }"
           "events { at: \"30s\" resize { gpus: 2 } } costs { detect: \"60s\" }");
  ASSERT_EQ(report_.jobs[0].reconfigurations.size(), 1u);
  EXPECT_EQ(reconfiguration(0).cause, "resize to 2");
}

TEST_F(ScenarioRun, ARedundantCopyLiesOnAnotherHostEvenOfTheRestOfTheCluster) {
  simulate("until: \"100s\"\n" +
           job_text("a",
                    "gpus: 1 configs { layout: \"dp1\" step_time: \"1s\" } "
                    "redundancy { copies: 1 where: OTHER_HOST every_steps: 10 }") +
           "events { at: \"45s\" fail { hosts: [0] } }");
  EXPECT_EQ(report_.jobs[0].state, "running") << report_.jobs[0].failure;
  EXPECT_GE(reconfiguration(0).step, 30);
}

TEST_F(ScenarioRun, EventsThatNeverHappenAreNamed) {
  simulate(kMayGrow + "events { at_step { step: 5000 } resize { gpus: 2 } }");
  EXPECT_THAT(report_.unreached, ElementsAre("events[0] (at step 5000)"));
}

TEST_F(ScenarioRun, JobsThatWaitForeverEndTheRun) {
  simulate(job_text("a", "devices: [0, 2] steps: 50 configs { layout: \"dp2\" step_time: \"1s\" }") +
           "events { at: \"5s\" fail { devices: [0] } }");
  EXPECT_EQ(report_.jobs[0].state, "failed");
  EXPECT_THAT(report_.jobs[0].failure, ::testing::HasSubstr("stuck at step 5: it waits for devices that never come"));
  EXPECT_EQ(report_.jobs[0].steps, 5);
}

}  // namespace sim_runtime_test
}  // namespace scalai::sim
