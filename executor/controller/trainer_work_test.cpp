// Real training with a program that stands in for it (executor/trainers/testing): whole runs, with processes that die.
#include "executor/controller/trainer_work.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>

#include "executor/controller/testing/test_fleet.h"
#include "executor/controller/testing/trained.h"
#include "executor/cuda/testing/fake_chunk_source.h"
#include "executor/device/testing/forwarding_backend.h"
#include "ptc/proto/control.pb.h"
#include "ptc/store/safetensors/job_checkpoint.h"

namespace scalai::executor::controller {

testing::Fleet::Options testing::busy(int times) {
  proto::ReplyBody later;
  later.set_busy(true);
  Fleet::Options options;
  options.busy = times;
  options.busy_reply = later.SerializeAsString();
  return options;
}

namespace {

using control::testing::job_text;
using control::testing::kSmallCluster;
using testing::busy;
using ::testing::ContainsRegex;
using testing::digests;
using testing::event_times;
using testing::execute;
using testing::Fleet;
using testing::Folder;
using ::testing::HasSubstr;
using testing::kCheckpoints;
using testing::Ran;
using testing::Trained;

TEST_F(Trained, ItIsDecidedAsInEmulation) {
  const scenario::Scenario scenario = scenario_of(job(kCheckpoints) + resize(5, 4) + resize(20, 1) + resize(30, 2));
  const Ran ran = train(scenario);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  EXPECT_GT(ran.bytes_verified, 0);
  expect_right(40);
  const Folder other;
  const Ran emulated = execute(scenario, "reshard", other.path());
  ASSERT_TRUE(emulated.report.ok()) << emulated.report.status();
  EXPECT_EQ(digests(*ran.report), digests(*emulated.report));
  EXPECT_EQ(event_times(*ran.report), event_times(*emulated.report));
  const auto table = read_file(folder_.path() + "/logs/take_ups.csv");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(std::count(table->begin(), table->end(), '\n'), 5) << "the first layout, and three changes";
  EXPECT_THAT(*table, ContainsRegex("\n5,\"tp2,dp2\",4,1,[0-9.]+,0.125000,0.250000\n"));
}

// A job without events or checkpoints trains in parts, between which it can be steered.
TEST(StepsOfPart, TakeASecondAndCopyATwentieth) {
  EXPECT_EQ(steps_of_part({.steps = 4, .seconds = 2}, 100), 2) << "of half a second";
  EXPECT_EQ(steps_of_part({.steps = 4, .seconds = 2}, 1), 1);
  EXPECT_EQ(steps_of_part({.steps = 1, .seconds = 30}, 2), 1);
  EXPECT_EQ(steps_of_part({.steps = 4, .seconds = 2.5, .copy_s = 0.5}, 100), 20) << "ten seconds";
  EXPECT_EQ(steps_of_part({.steps = 1, .seconds = 11, .copy_s = 10}, 100), 60) << "a minute, not 200 s";
  EXPECT_EQ(steps_of_part({.steps = 5, .seconds = 0}, 7), 7) << "steps that take no time";
}

std::vector<double> times_of_checkpoints(const control::RunReport& report) {
  std::vector<double> times;
  for (const control::Event& event : report.events) {
    if (std::holds_alternative<control::BackgroundDone>(event.body)) times.push_back(event.at_s);
  }
  return times;
}

// Workers write while training goes on. A scenario's run waits at the modelled end, so that it is decided as in the
// simulator; a launched job does not.
TEST_F(Trained, CheckpointsThatTakeLong) {
  const scenario::Scenario scenario = scenario_of(job(kCheckpoints));
  const Ran modelled = execute(scenario, "reshard", Folder().path());
  ASSERT_TRUE(modelled.report.ok()) << modelled.report.status();
  const std::vector<double> expected = times_of_checkpoints(*modelled.report);
  ASSERT_GE(expected.size(), 4u);
  {
    const Ran waits = train(scenario, "", busy(12));
    ASSERT_TRUE(waits.report.ok()) << waits.report.status();
    EXPECT_EQ(event_times(*waits.report), event_times(*modelled.report));
    expect_right(40);
  }
  const Ran goes_on = train(scenario, "", busy(2), {.late_checkpoints = true});
  ASSERT_TRUE(goes_on.report.ok()) << goes_on.report.status();
  // How many are done before the end is a matter of how fast this machine trains meanwhile, and may be none.
  for (const double at_s : times_of_checkpoints(*goes_on.report)) EXPECT_GT(at_s, expected.front());
  expect_right(40);
}

// A change that loses bytes, as the worker of h0 tells it: the second sum is of the new state.
TEST_F(Trained, AChangeMustNotChangeTheContent) {
  const scenario::Scenario scenario = scenario_of(job("") + resize(5, 1));
  const auto spoil = [](int32_t, const std::string& what, int nth, std::string& body) {
    if (what != "digest" || nth != 2) return;
    proto::ReplyBody reply;
    ASSERT_TRUE(reply.ParseFromString(body));
    ASSERT_GT(reply.sums_size(), 1);
    reply.mutable_sums(1)->set_sum(reply.sums(1).sum() + 1);
    body = reply.SerializeAsString();
  };
  const Ran ran = train(scenario, "", {.spoil = spoil});
  ASSERT_TRUE(absl::IsDataLoss(ran.report.status())) << ran.report.status();
  EXPECT_THAT(
      message_of(ran.report.status()),
      ContainsRegex("^job a, epoch 1: tensors differ from what they were at step 5:\n  tensor \"[a-z0-9._]+\"$"));
}

// Before there is a checkpoint there is only the beginning, which the program makes again.
TEST_F(Trained, BeforeItsFirstCheckpointItBeginsAfresh) {
  const scenario::Scenario scenario = scenario_of(
      job_text("a",
               "gpus: 4 steps: 41 configs { layout: \"tp4\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: "
               "\"1s\" } checkpoint { every_steps: 10 }"));
  const Ran ran = train(scenario, "", {.deaths = {{.host = 1, .what = "write", .nth = 1}}});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.deaths, 1);
  EXPECT_EQ(ran.report->jobs[0].state, "complete") << ran.report->jobs[0].failure;
  EXPECT_EQ(ran.report->jobs[0].reconfigurations[0].step, 0);
  expect_right(40);
}

// A host that is lost while it writes: the checkpoint is void, the one before counts.
TEST_F(Trained, AHostThatIsLostWhileItWrites) {
  const scenario::Scenario scenario = scenario_of(
      job_text("a",
               "gpus: 4 steps: 41 configs { layout: \"tp4\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: "
               "\"1s\" } checkpoint { every_steps: 10 }"));
  const Ran ran = train(scenario, "", {.deaths = {{.host = 1, .what = "written", .nth = 2}}});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.deaths, 1);
  EXPECT_EQ(ran.report->jobs[0].state, "complete") << ran.report->jobs[0].failure;
  ASSERT_EQ(ran.report->jobs[0].reconfigurations.size(), 1u);
  EXPECT_LE(ran.report->jobs[0].reconfigurations[0].step, 10);
  expect_right(40);
}

TEST_F(Trained, RequestsAreHeardOnTheWay) {
  const scenario::Scenario scenario = scenario_of(job(""));
  LiveRequests requests;
  std::vector<double> times;
  ExecOptions options;
  options.requests = &requests;
  options.on_time = [&](double at_s) {
    if (times.empty()) requests.add(control::UserResize{.job = 0, .gpus = 4});
    times.push_back(at_s);
  };
  const Ran ran = train(scenario, "", {}, options);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  ASSERT_FALSE(times.empty());
  EXPECT_EQ(times.front(), 1.5) << "of the first part, which is one step";
  const control::JobRecord& record = ran.report->jobs[0];
  EXPECT_EQ(record.state, "complete");
  ASSERT_EQ(record.reconfigurations.size(), 1u);
  EXPECT_LE(record.reconfigurations[0].step, 4) << "parts of one and at most two steps, and the step under way";
  const std::vector<control::TrainedSteps>& trained = ran.report->recorder.trained;
  ASSERT_EQ(trained.size(), 2u);
  EXPECT_EQ(trained[0].layout, "tp2");
  EXPECT_EQ(trained[1].layout, "tp2,dp2");
  EXPECT_EQ(trained[1].gpus, 4);
  EXPECT_EQ(trained[0].steps + trained[1].steps, 41);
  EXPECT_GT(trained[1].measured_s, 0);
  EXPECT_EQ(trained[1].scenario_step_s, 1);
}

// What it has read counts, not what it should have.
TEST_F(Trained, TheProgramSaysWhatItHasRead) {
  const scenario::Scenario scenario = scenario_of(job("dataset { samples: 50 }"));
  const Ran ran = train(scenario, "SCALAI_TEST_READS=1");
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  ASSERT_TRUE(ran.report->jobs[0].dataset.has_value());
  EXPECT_EQ(ran.report->jobs[0].dataset->samples_read, 41);
  EXPECT_EQ(ran.report->jobs[0].dataset->exactly_once, false);
}

TEST_F(Trained, WhatTheProgramDoesNotSayIsNotProved) {
  const scenario::Scenario scenario = scenario_of(job("dataset { samples: 50 }"));
  const Ran ran = train(scenario, "");
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  ASSERT_TRUE(ran.report->jobs[0].dataset.has_value());
  EXPECT_EQ(ran.report->jobs[0].dataset->exactly_once, std::nullopt);
  EXPECT_EQ(ran.report->jobs[0].dataset->samples_assumed, ran.report->jobs[0].dataset->samples_read);
}

TEST_F(Trained, TheProgramAsks) {
  const scenario::Scenario scenario = scenario_of(job(""));
  LiveRequests requests;
  ExecOptions options;
  options.requests = &requests;
  std::vector<std::tuple<int, int, bool>> asked;
  options.on_asked = [&](int job, int gpus, bool save) {
    asked.emplace_back(job, gpus, save);
    requests.add(control::UserResize{.job = job, .gpus = gpus});
    requests.add(control::UserSave{.job = job});
  };
  const Ran ran = train(scenario, R"(SCALAI_TEST_ASKS='{"gpus": 1, "save": true}')", {}, options);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_THAT(asked, ::testing::ElementsAre(std::tuple(0, 1, true)));
  ASSERT_EQ(ran.report->jobs[0].reconfigurations.size(), 1u);
  EXPECT_EQ(ran.report->jobs[0].reconfigurations[0].to_gpus, 1);
  expect_right(ran.report->jobs[0].reconfigurations[0].step);
}

// Those of a host that the layout leaves out, too.
TEST_F(Trained, ProcessesStandBy) {
  const scenario::Scenario scenario = scenario_of(
      job_text(
          "a",
          "gpus: 2 steps: 41 configs { layout: \"tp2\" step_time: \"1s\" } configs { layout: \"tp2,dp4\" step_time: "
          "\"1s\" } configs { layout: \"tp1\" step_time: \"1s\" } checkpoint { every_steps: 10 }") +
      resize(5, 1) + resize(20, 8) + resize(30, 1) + resize(35, 8));
  ExecOptions options;
  options.standby = true;
  const Ran ran = train(scenario, "", {}, options);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  for (int device = 0; device < 8; ++device) {
    const std::string log = fmt::format("{}/logs/g{}.log", folder_.path(), device);
    const std::string rests = device == 0 ? "" : device == 1 ? "rests\nrests\n" : "rests\n";  // lets go of its memory
    EXPECT_EQ(read_file(log).value_or(""), "begun\n" + rests) << log;
  }
  expect_right(40);
}

// Every process dies once, before a step is done: no state is lost, nothing is decided otherwise.
TEST_F(Trained, ADeadProcessTakesNoStateWithIt) {
  const scenario::Scenario scenario = scenario_of(job(kCheckpoints) + resize(15, 4));
  const Ran ran = train(scenario, "SCALAI_TEST_DEATHS='g0:before:3 g1:before:8 g0:start:0 g2:before:20 g3:before:33'");
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  EXPECT_EQ(ran.report->jobs[0].lost_steps, 0);
  EXPECT_EQ(ran.report->jobs[0].reconfigurations.size(), 1u);
  expect_right(40);
}

// Devices whose memory nobody maps but who is given its parts, as on GPUs; several hundred a device.
class InChunks final : public device::ForwardingBackend {
 public:
  absl::StatusOr<std::unique_ptr<state::Memory>> memory_of_device(int, const state::SegmentOptions& options) override {
    auto gpu = std::make_shared<cuda::FakeGpu>();
    gpu->chunk_bytes = 2 * cuda::kGrain;
    gpu->chunks = 4096;
    state::SegmentOptions all = options;
    all.leave_free = 0;
    return cuda::ChunkedMemory::create(std::make_unique<cuda::FakeChunkSource>(std::move(gpu)), all);
  }
  int gpu_of_device(int device) const override { return device; }
  static Fleet::Options fleet() {
    rlimit files{};  // of the chunks of four devices, old and new
    SCALAI_CHECK(::getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    SCALAI_CHECK(::setrlimit(RLIMIT_NOFILE, &files) == 0);
    Fleet::Options options;
    options.backend = [] { return std::make_shared<InChunks>(); };
    return options;
  }
};

TEST_F(Trained, MemoryOfGpusIsTrainedInPlace) {
  const scenario::Scenario scenario = scenario_of(job(kCheckpoints) + resize(5, 4) + resize(20, 1) + resize(30, 2));
  const Ran ran = train(scenario, "SCALAI_TEST_DEATHS='g0:before:3 g1:before:33'", InChunks::fleet());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  EXPECT_EQ(ran.report->jobs[0].lost_steps, 0);
  expect_right(40);
  const Folder other;
  const Ran emulated = execute(scenario, "reshard", other.path());
  ASSERT_TRUE(emulated.report.ok()) << emulated.report.status();
  EXPECT_EQ(digests(*ran.report), digests(*emulated.report));
}

TEST_F(Trained, TornMemoryOfAGpuDoesNotCount) {
  const Ran ran = train(scenario_of(job(kCheckpoints)), "SCALAI_TEST_DEATHS=g1:amid:14", InChunks::fleet());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  EXPECT_EQ(ran.report->jobs[0].lost_steps, 4);
  expect_right(40);
}

TEST_F(Trained, MemoryThatNobodyCanMapEndsTheRun) {
  const Ran ran = train(scenario_of(job(kCheckpoints)), "SCALAI_TEST_CANNOT_MAP='no driver here'", InChunks::fleet());
  ASSERT_FALSE(ran.report.ok());
  EXPECT_THAT(message_of(ran.report.status()), HasSubstr("no driver here"));
}

// Two devices with the same state, and checkpoints.
std::string replicas() {
  return job_text(
      "a",
      "gpus: 2 steps: 41 configs { layout: \"dp2\" step_time: \"1s\" } configs { layout: \"tp1\" step_time: "
      "\"1s\" } checkpoint { every_steps: 10 }");
}

// Half of the new step is written: nobody may read that memory. The other replica has the state.
TEST_F(Trained, ATornHolderDoesNotCount) {
  const scenario::Scenario scenario = scenario_of(replicas());
  const Ran ran = train(scenario, "SCALAI_TEST_DEATHS=g1:amid:14");
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  ASSERT_EQ(ran.report->jobs[0].reconfigurations.size(), 1u);
  const control::ReconfigurationRecord& change = ran.report->jobs[0].reconfigurations[0];
  EXPECT_EQ(change.step, 14) << "of the replica that has gone on";
  EXPECT_EQ(change.rolled_back_steps, 0);
  EXPECT_EQ(change.plan->dst_devices(), (std::vector{DeviceId(0), DeviceId(1)}))
      << "the device of the dead process works";
  expect_right(40);
}

// Its device may be why, so it is not tried without end.
TEST_F(Trained, ADeviceWhoseTrainersDieAgainAndAgainIsLeft) {
  const scenario::Scenario scenario = scenario_of(replicas());
  const Ran ran = train(scenario, "SCALAI_TEST_DEATHS='g1:amid:14 g1:amid:20 g1:amid:25'");
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  const std::vector<control::ReconfigurationRecord>& changes = ran.report->jobs[0].reconfigurations;
  ASSERT_EQ(changes.size(), 3u);
  for (size_t i = 0; i < changes.size(); ++i) {
    const std::vector<DeviceId>& devices = changes[i].plan->dst_devices();
    EXPECT_EQ(std::count(devices.begin(), devices.end(), DeviceId(1)), i < 2 ? 1 : 0) << i;
  }
  expect_right(40);
}

// Without a replica the last checkpoint has it.
TEST_F(Trained, WhatIsTornWithoutAReplicaComesFromTheCheckpoint) {
  const scenario::Scenario scenario = scenario_of(job(kCheckpoints));
  const Ran ran = train(scenario, "SCALAI_TEST_DEATHS=g1:amid:14");
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  ASSERT_EQ(ran.report->jobs[0].reconfigurations.size(), 1u);
  EXPECT_EQ(ran.report->jobs[0].reconfigurations[0].step, 10);
  EXPECT_EQ(ran.report->jobs[0].lost_steps, 4);
  expect_right(40);
}

// Where nobody has whole state the steps until then are lost all the same.
TEST_F(Trained, WhereAllIsTornTheStepsUntilThenAreLost) {
  const std::string alone =
      job_text("a", std::string("gpus: 1 steps: 41 configs { layout: \"tp1\" step_time: \"1s\" } ") + kCheckpoints);
  const Ran ran = train(scenario_of(alone), "SCALAI_TEST_DEATHS=g0:amid:14");
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  ASSERT_EQ(ran.report->jobs[0].reconfigurations.size(), 1U);
  EXPECT_EQ(ran.report->jobs[0].reconfigurations[0].rolled_back_steps, 3);
  expect_right(40);
}

TEST_F(Trained, ALostHostEndsAStepThatNobodyFinishes) {
  const scenario::Scenario scenario = scenario_of(job_text(
      "a",
      "gpus: 4 steps: 41 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: "
      "\"1s\" } checkpoint { every_steps: 10 }"));
  Fleet::Options fleet;
  fleet.deaths = {{.host = 1, .what = "advance", .nth = 3}};
  const Ran ran = train(scenario, "", fleet);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.deaths, 1);
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  ASSERT_EQ(ran.report->jobs[0].reconfigurations.size(), 1u);
  EXPECT_EQ(ran.report->jobs[0].reconfigurations[0].step, 20) << "the step at which the others stood still";
  expect_right(40);
}

TEST_F(Trained, AFailureOfTheScenarioEndsTheProcesses) {
  const scenario::Scenario scenario = scenario_of(
      job_text(
          "a",
          "gpus: 4 steps: 41 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: "
          "\"1s\" } checkpoint { every_steps: 10 }") +
      "events { at: \"13.5s\" fail { hosts: 1 } }\nevents { at: \"25s\" repair { hosts: 1 } }\n");
  const Ran ran = train(scenario);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  ASSERT_FALSE(ran.report->jobs[0].reconfigurations.empty());
  EXPECT_EQ(ran.report->jobs[0].reconfigurations[0].step, 13);
  expect_right(40);
  const Folder other;
  const Ran emulated = execute(scenario, "reshard", other.path());
  ASSERT_TRUE(emulated.report.ok()) << emulated.report.status();
  EXPECT_EQ(digests(*ran.report), digests(*emulated.report));
}

// A worker dies around a command of each kind; its trainers go with it.
class DeathsOfWorkers : public Trained, public ::testing::WithParamInterface<std::tuple<std::string, int, bool>> {};

TEST_P(DeathsOfWorkers, TheJobIsWholeInTheEnd) {
  const auto& [what, nth, after] = GetParam();
  const scenario::Scenario scenario = scenario_of(
      job_text(
          "a",
          "gpus: 4 steps: 31 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: "
          "\"1s\" } configs { layout: \"tp1\" step_time: \"1s\" } checkpoint { every_steps: 10 }") +
      resize(5, 2) + resize(15, 4));
  Fleet::Options fleet;
  fleet.deaths = {{.host = 1, .what = what, .nth = nth, .after = after}};
  const Ran ran = train(scenario, "", fleet);
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.deaths, 1) << "the death did not come: a test of nothing";
  EXPECT_EQ(ran.report->jobs[0].state, "complete");
  expect_right(30);
}

INSTANTIATE_TEST_SUITE_P(
    , DeathsOfWorkers,
    ::testing::Values(std::tuple("create", 1, false), std::tuple("create", 1, true), std::tuple("begin", 1, false),
                      std::tuple("begin", 1, true), std::tuple("begin", 2, false), std::tuple("begin", 2, true),
                      std::tuple("advance", 1, false), std::tuple("advance", 1, true), std::tuple("advance", 2, false),
                      std::tuple("digest", 1, false), std::tuple("digest", 1, true), std::tuple("prepare", 1, false),
                      std::tuple("prepare", 1, true), std::tuple("round", 1, false), std::tuple("round", 1, true),
                      std::tuple("commit", 1, false), std::tuple("commit", 1, true), std::tuple("digest", 3, false)));

TEST_F(Trained, AStepThatNobodyCanDoEndsTheRun) {
  const scenario::Scenario scenario = scenario_of(job(kCheckpoints));
  const Ran ran = train(scenario, "SCALAI_TEST_FAILS=13");
  ASSERT_FALSE(ran.report.ok());
  EXPECT_THAT(message_of(ran.report.status()), HasSubstr("trainers stopped 3 times at step 12 of 20"));
  EXPECT_THAT(message_of(ran.report.status()), HasSubstr("trainer of g0: it cannot do this step"));
}

TEST_F(Trained, AProgramThatAlwaysFailsEndsTheRun) {
  const scenario::Scenario scenario = scenario_of(job(kCheckpoints));
  ExecOptions options;
  options.programs[0] = {.command = "sh -c 'exit 3'", .folder = folder_.path(), .logs = folder_.path() + "/logs"};
  const Ran ran = execute(scenario, "reshard", folder_.path(), {}, options);
  ASSERT_FALSE(ran.report.ok());
  EXPECT_THAT(message_of(ran.report.status()), HasSubstr("trainers failed 3 times at the layout \"tp2\""));
  EXPECT_THAT(message_of(ran.report.status()), HasSubstr("exit code 3, see " + folder_.path() + "/logs/g"));
}

}  // namespace
}  // namespace scalai::executor::controller
