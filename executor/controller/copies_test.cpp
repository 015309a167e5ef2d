// Checkpoints that cannot be written, and ones that cannot be read: a warning, another attempt, at worst one job's end.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "executor/controller/live_requests.h"
#include "executor/controller/testing/test_fleet.h"
#include "ptc/run/scenario/job_state.h"
#include "ptc/store/safetensors/job_checkpoint.h"

namespace scalai::executor::controller {
namespace {

using control::testing::job_text;
using control::testing::kSmallCluster;
using testing::execute;
using testing::expect_replayable;
using testing::Folder;
using ::testing::HasSubstr;
using testing::Ran;

scenario::Scenario a_minute_of(const std::string& text, const std::string& cluster = kSmallCluster) {
  auto scenario = control::testing::scenario_of(cluster + "until: \"60s\"\n" + text);
  SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
  return *std::move(scenario);
}

std::string split_job(const std::string& name, const std::string& where) {
  return job_text(name, where + " configs { layout: \"tp2\" step_time: \"1s\" } checkpoint { every_steps: 5 }");
}

template <class E>
int how_many(const control::RunReport& report) {
  return static_cast<int>(std::count_if(report.events.begin(), report.events.end(), [](const control::Event& event) {
    return std::holds_alternative<E>(event.body);
  }));
}

TEST(Copies, ACheckpointThatCannotBeWrittenIsTriedAgain) {
  const scenario::Scenario scenario = a_minute_of(split_job("a", "gpus: 2"));
  const Folder folder;
  const std::string in_the_way = folder.path() + "/checkpoints";
  ASSERT_TRUE(write_file(in_the_way, "a file").ok());
  int steps = 0;
  const auto mend = [&](int32_t host, const std::string& what) {  // after the third attempt
    if (host == 0 && what == "advance" && ++steps == 4) std::filesystem::remove(in_the_way);
    return false;
  };
  const Ran ran = execute(scenario, "reshard", folder.path(), {.swallow = mend});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "running");
  EXPECT_EQ(how_many<control::CopyLost>(*ran.report), 3);
  EXPECT_GT(how_many<control::BackgroundDone>(*ran.report), 3);
  expect_replayable(*ran.report, folder.path());
}

// So that it can be read as one: models without a family have no such file.
TEST(Copies, ACheckpointSaysWhoseItIs) {
  const Folder folder;
  ASSERT_TRUE(execute(a_minute_of(split_job("a", "gpus: 2")), "reshard", folder.path()).report.ok());
  const std::string file = store::step_folder(folder.path() + "/checkpoints/a", 55) + "/model.textproto";
  EXPECT_THAT(read_file(file).value_or("none"), HasSubstr("family"));
}

// A checkpoint that a killed controller had begun goes with the next one.
TEST(Copies, WhatKilledWritersLeftGoesWithTheNextCheckpoint) {
  const scenario::Scenario scenario = a_minute_of(split_job("a", "gpus: 2"));
  const Folder folder;
  const std::string left = store::step_folder(folder.path() + "/checkpoints/a", 3) + ".partial.1.0";
  const std::string foreign = folder.path() + "/checkpoints/a/notes";
  for (const std::string& path : {left, foreign}) {
    ASSERT_TRUE(make_folders(path).ok());
    ASSERT_TRUE(write_file(path + "/file", "bytes").ok());
  }
  const Ran ran = execute(scenario, "reshard", folder.path(), {});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(foreign + "/file"));
}

TEST(Copies, ARunThatIsToEndWaitsForItsCheckpoint) {
  const scenario::Scenario scenario = a_minute_of(split_job("a", "gpus: 2"));
  const Folder folder;
  const std::string in_the_way = folder.path() + "/checkpoints";
  ASSERT_TRUE(write_file(in_the_way, "a file").ok());
  LiveRequests requests;
  requests.add(control::UserStop{});
  std::thread mender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    std::filesystem::remove(in_the_way);
  });
  ExecOptions options;
  options.requests = &requests;
  const Ran ran = execute(scenario, "reshard", folder.path(), {}, options);
  mender.join();
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "stopped");
  EXPECT_GE(how_many<control::CopyLost>(*ran.report), 1);
  EXPECT_TRUE(std::filesystem::exists(store::step_folder(in_the_way + "/a", ran.report->jobs[0].steps)));
}

// h0 dies with job a's state, and a's checkpoint is damaged. Job b has nothing to do with that.
TEST(Copies, ARottenCheckpointIsTheEndOfOneJobOnly) {
  const scenario::Scenario scenario = a_minute_of(split_job("a", "gpus: 2") + split_job("b", "devices: [6, 7]") +
                                                  "events { at: \"12s\" fail { hosts: [0] } }\n");
  for (const std::string damage : {"shorter", "gone", "other bytes"}) {
    SCOPED_TRACE(damage);
    const Folder folder;
    const std::string files = folder.path() + "/checkpoints/a";
    const auto spoil = [&](int32_t, const std::string& what) {
      if (what != "prepare") return false;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(files)) {
        if (entry.path().extension() != ".safetensors") continue;
        if (damage == "gone") {
          std::filesystem::remove(entry.path());
        } else if (damage == "shorter") {
          std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
        } else {
          std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
          file.seekp(-64, std::ios::end);
          file << std::string(64, '#');
        }
      }
      return false;
    };
    const Ran ran = execute(scenario, "reshard", folder.path(), {.swallow = spoil});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.report->jobs[0].state, "failed");
    EXPECT_THAT(ran.report->jobs[0].failure, HasSubstr("the copy of step 10 cannot be read"));
    EXPECT_EQ(ran.report->jobs[1].state, "running");
    EXPECT_TRUE(std::filesystem::exists(store::step_folder(files, 10))) << "people may want to look at it";
    expect_replayable(*ran.report, folder.path());
  }
}

// h1 dies with half of the optimizer's shards. Four replicas on two hosts start again from storage: it gives each byte
// of the state once. What is not sharded crosses to the other host once, and goes to the second device of each host
// from the first.
TEST(Copies, ARestoreReadsTheStateOnceAndVerifies) {
  const scenario::Scenario scenario =
      a_minute_of(job_text("a",
                           "gpus: 4 configs { layout: \"dp4,zero1\" step_time: \"1s\" } "
                           "checkpoint { every_steps: 5 }") +
                  "events { at: \"12s\" fail { hosts: [1] } }\n");
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  const control::JobRecord& job = ran.report->jobs[0];
  EXPECT_EQ(job.state, "running") << job.failure;
  ASSERT_EQ(job.reconfigurations.size(), 1u);
  const control::ReconfigurationRecord& restore = job.reconfigurations[0];
  EXPECT_EQ(restore.step, 10);
  const auto state = scenario::collection_of(scenario.jobs[0], collection::parse_layout("dp4,zero1").value(),
                                             {DeviceId(0), DeviceId(1), DeviceId(4), DeviceId(5)});
  ASSERT_TRUE(state.ok()) << state.status();
  using model::StateKind;
  const std::set<StateKind> sharded = {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq};
  int64_t bytes = 0, replicated = 0;
  for (const collection::LogicalTensor& tensor : state->tensors) {
    bytes += tensor.bytes();
    replicated += sharded.contains(tensor.kind) ? 0 : tensor.bytes();
  }
  EXPECT_GT(replicated, 0);
  EXPECT_EQ(restore.plan->bytes(),
            (plan::ClassBytes{.same_host = 2 * replicated, .cross_host = replicated, .from_storage = bytes}));
  EXPECT_EQ(ran.bytes_verified, bytes + 3 * replicated) << "all that arrived";
  expect_replayable(*ran.report, folder.path());
}

// Four replicas, on h0 and h1, and their rack dies. With two copies a third host has every box of step 10, and what
// comes from there verifies.
TEST(Copies, ALossOfBothReplicasGoesBackToCopies) {
  std::string racked = kSmallCluster;
  racked.insert(racked.find("storage {"), "rack_hosts: 2 ");
  const scenario::Scenario scenario = a_minute_of(job_text("a",
                                                           "gpus: 4 configs { layout: \"dp4\" step_time: \"1s\" } "
                                                           "redundancy { copies: 2 every_steps: 5 }") +
                                                      "events { at: \"12s\" fail { racks: 0 } }\n",
                                                  racked);
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  const control::JobRecord& job = ran.report->jobs[0];
  EXPECT_EQ(job.state, "running") << job.failure;
  ASSERT_EQ(job.reconfigurations.size(), 1u);
  EXPECT_EQ(job.reconfigurations[0].step, 10);
  EXPECT_EQ(job.reconfigurations[0].plan->bytes().from_storage, 0);
  EXPECT_GT(ran.bytes_verified, 0);
  ASSERT_TRUE(job.redundancy.has_value());
  EXPECT_GT(job.redundancy->made, 5);
  EXPECT_EQ(job.redundancy->survives_host_losses, 1) << "of the last ones: two hosts are left, h2 and h3";
  expect_replayable(*ran.report, folder.path());
}

// The copies of what h0 held are in the memory of h1, where another job runs. Its worker dies while they are read: no
// device of the plan is lost with it.
TEST(Copies, AHostThatDiesWhileItsCopiesAreReadEndsTheAttempt) {
  const scenario::Scenario scenario =
      a_minute_of(job_text("a",
                           "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" } checkpoint { every_steps: 2 } "
                           "redundancy { copies: 1 where: OTHER_HOST every_steps: 3 }") +
                  job_text("b", "devices: [2, 3] configs { layout: \"tp2\" step_time: \"1s\" }") +
                  "events { at: \"10s\" fail { hosts: [0] } }\n");
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late ? "the failed round is known first" : "the death is known first");
    const Folder folder;
    const Ran ran =
        execute(scenario, "reshard", folder.path(),
                {.deaths = {{.host = 2, .what = "round", .nth = 1, .victim = 1, .late = late}}, .network = true});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.deaths, 1);
    const control::JobRecord& job = ran.report->jobs[0];
    EXPECT_EQ(job.state, "running") << job.failure;
    ASSERT_EQ(job.reconfigurations.size(), 1u);
    EXPECT_EQ(job.reconfigurations[0].aborted_attempts, 1);
    EXPECT_GT(job.reconfigurations[0].plan->bytes().from_storage, 0);
    expect_replayable(*ran.report, folder.path());
  }
}

}  // namespace
}  // namespace scalai::executor::controller
