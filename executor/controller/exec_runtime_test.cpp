#include "executor/controller/exec_runtime.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "executor/controller/job_work.h"
#include "executor/controller/testing/test_fleet.h"
#include "ptc/base/testing/share.h"
#include "ptc/plan/estimate.h"

namespace scalai::executor::controller {
namespace {

using control::RunReport;
using control::testing::job_text;
using control::testing::kSmallCluster;
using scenario::Scenario;
using testing::Death;
using testing::digests;
using testing::event_times;
using testing::execute;
using testing::expect_replayable;
using testing::Folder;
using ::testing::HasSubstr;
using testing::Ran;

constexpr const char* kCosts = "costs { restart: \"2s\" communicator: \"1s\" detect: \"3s\" }\n";

Scenario scenario_of(const std::string& text) {
  auto scenario = control::testing::scenario_of(text);
  SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
  return *std::move(scenario);
}

// Grows, moves, loses a host (in mid-reconfiguration), gets it back; checkpoints and copies all along.
std::string eventful(const std::string& more = "") {
  return std::string(kSmallCluster) + "until: \"150s\"\n" + kCosts + "planner { round_bytes: \"200kB\" }\n" +
         job_text("a",
                  "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2,pp2,dp2\" "
                  "step_time: \"600ms\" } configs { layout: \"tp2\" step_time: \"2s\" } "
                  "checkpoint { every_steps: 20 host_memory_copy: true } "
                  "redundancy { copies: 1 where: OTHER_HOST every_steps: 15 }") +
         more +
         "events { at: \"10s\" resize { gpus: 8 } }\n"
         "events { at: \"30s\" resize { gpus: 4 } }\n"
         "events { at: \"50s\" redeploy { devices: [4, 5, 6, 7] } }\n"
         "events { during { reconfiguration: 3 after_round: 1 } fail { hosts: [2] } }\n"
         "events { at: \"80s\" repair { hosts: [2] } }\n"
         "events { at: \"100s\" resize { gpus: 8 } }\n"
         "events { at: \"120s\" fail { devices: [3] } }\n";
}

void expect_running(const RunReport& report) {
  for (const control::JobRecord& job : report.jobs) EXPECT_EQ(job.state, "running") << job.name << job.failure;
}

// ---- whole runs -----------------------------------------------------------------------------------------------------

class EveryStrategy : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryStrategy, GoesThroughEverythingVerifiedAndTheSameTwice) {
  const Scenario scenario = scenario_of(eventful());
  const Folder folder, again_folder;
  const Ran ran = execute(scenario, GetParam(), folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  expect_running(*ran.report);
  EXPECT_GT(ran.bytes_verified, 0);
  EXPECT_GE(ran.report->plans.size(), GetParam() == "dp-only" ? 1u : 5u);
  expect_replayable(*ran.report, folder.path());

  const Ran again = execute(scenario, GetParam(), again_folder.path());
  ASSERT_TRUE(again.report.ok()) << again.report.status();
  EXPECT_EQ(digests(*again.report), digests(*ran.report));
  EXPECT_EQ(event_times(*again.report), event_times(*ran.report));
}

TEST_P(EveryStrategy, MovesTheSameThroughTransports) {
  const Scenario scenario = scenario_of(eventful());
  const Folder folder, network_folder;
  const Ran ran = execute(scenario, GetParam(), folder.path());
  const Ran network = execute(scenario, GetParam(), network_folder.path(), {.network = true});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  ASSERT_TRUE(network.report.ok()) << network.report.status();
  EXPECT_EQ(digests(*network.report), digests(*ran.report));
  EXPECT_GT(network.bytes_verified, 0);
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategy, ::testing::ValuesIn(scenario::strategy_names()),
                         [](const auto& strategy) {
                           std::string name = strategy.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ExecRuntime, RecordsWhatWasMovedAndHowLongItTook) {
  const Scenario scenario = scenario_of(eventful());
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  const control::ReconfigurationRecord& first = ran.report->jobs[0].reconfigurations.at(0);
  int64_t moved = 0, planned = 0;
  for (const control::TransferRecord& record : ran.report->recorder.transfers) {
    EXPECT_LE(record.start_s, record.end_s);
    EXPECT_GE(record.round, 1);
    if (record.reconfiguration == first.index) moved += record.bytes;
  }
  for (const plan::Operation& operation : first.plan->operations())
    planned += operation.transfer_class == plan::TransferClass::kKept ? 0 : operation.bytes;
  EXPECT_GT(planned, 0);
  EXPECT_EQ(moved, planned);
  EXPECT_GT(first.phases.transfer, 0) << "measured";
}

TEST(ExecRuntime, WhatIsNotVerifiedIsNotCounted) {
  const Scenario scenario = scenario_of(eventful());
  int64_t bytes[3];
  const VerifyMode modes[] = {VerifyMode::kFull, VerifyMode::kSample, VerifyMode::kNone};
  for (int i = 0; i < 3; ++i) {
    const Folder folder;
    const Ran ran = execute(scenario, "reshard", folder.path(), {}, {.folder = "", .verify = modes[i]});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    bytes[i] = ran.bytes_verified;
  }
  EXPECT_GT(bytes[0], bytes[1]);
  EXPECT_GT(bytes[1], 0);
  EXPECT_EQ(bytes[2], 0);
}

TEST(ExecRuntime, WrongStateEndsTheRunAndIsNamed) {
  const Scenario scenario = scenario_of(eventful());
  for (const std::string what : {"advance", "round"}) {
    const Folder folder;
    const auto swallow = [&](int32_t host, const std::string& name) { return host == 1 && name == what; };
    const Ran ran = execute(scenario, "reshard", folder.path(), {.swallow = swallow});
    EXPECT_EQ(ran.report.status().code(), absl::StatusCode::kDataLoss) << what << ran.report.status();
    EXPECT_THAT(std::string(ran.report.status().message()), HasSubstr("tensor \"")) << what;
    EXPECT_THAT(std::string(ran.report.status().message()), HasSubstr("g2")) << what;
  }
}

// Counts, and fails the third commit.
class FullLog : public RunLog {
 public:
  absl::Status event(const control::Event&) override { return ++events, absl::OkStatus(); }
  absl::Status execute(const control::Execute&) override { return absl::OkStatus(); }
  absl::Status round(int, int) override { return absl::OkStatus(); }
  absl::StatusOr<int> last_round(int) const override { return 0; }
  absl::Status abort(int) override { return absl::OkStatus(); }
  absl::Status commit(const control::Commit& commit) override {
    commits.push_back(commit.epoch);
    return commits.size() < 3 ? absl::OkStatus() : absl::ResourceExhaustedError("the disk is full");
  }
  absl::Status freed(int) override { return absl::OkStatus(); }

  size_t events = 0;
  std::vector<int64_t> commits;
};

TEST(ExecRuntime, RecordsComeBeforeDeedsAndTheirErrorsEndTheRun) {
  const Scenario scenario = scenario_of(eventful());
  const Folder folder;
  FullLog log;
  ExecOptions options;
  options.log = &log;
  std::atomic<int> commits = 0;
  const auto count = [&](int32_t host, const std::string& what) {
    commits += host == 0 && what == "commit" ? 1 : 0;
    return false;
  };
  const Ran ran = execute(scenario, "reshard", folder.path(), {.swallow = count}, std::move(options));
  EXPECT_EQ(ran.report.status().message(), "the disk is full");
  EXPECT_EQ(log.commits.size(), 3u);
  EXPECT_TRUE(std::is_sorted(log.commits.begin(), log.commits.end()));
  EXPECT_EQ(commits, 2) << "the third was never told";
  EXPECT_GT(log.events, 3u);
}

TEST(ExecRuntime, AJobThatWaitsForeverIsSaidToBeStuck) {
  const std::string text = std::string(kSmallCluster) + kCosts +
                           job_text("a",
                                    "gpus: 8 steps: 50 configs { layout: \"tp2,dp4\" step_time: \"1s\" } "
                                    "checkpoint { every_steps: 5 }") +
                           "events { at: \"10s\" fail { hosts: [3] } }\n";
  const Scenario scenario = scenario_of(text);
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "failed");
  EXPECT_THAT(ran.report->jobs[0].failure, HasSubstr("waits for devices that never come"));
}

TEST(ExecRuntime, RepairBeforeTheLossIsKnownBringsBackAnEmptyHost) {
  const std::string text = std::string(kSmallCluster) + "until: \"60s\"\n" + kCosts +
                           job_text("a",
                                    "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } "
                                    "configs { layout: \"tp2\" step_time: \"2s\" }") +
                           "events { at: \"20500ms\" fail { hosts: [1] } }\n"
                           "events { at: \"21500ms\" repair { hosts: [1] } }\n";
  const Scenario scenario = scenario_of(text);
  for (const std::string& strategy : scenario::strategy_names()) {
    if (strategy == "checkpoint-restart") continue;
    const Folder folder;
    const Ran ran = execute(scenario, strategy, folder.path());
    ASSERT_TRUE(ran.report.ok()) << strategy << ran.report.status();
    expect_running(*ran.report);
    expect_replayable(*ran.report, folder.path());
  }
}

// The second checkpoint is on its way to a slow storage when a device of it is lost: the first one counts on.
TEST(ExecRuntime, ACheckpointThatNeverCountsLeavesTheOneBeforeIt) {
  std::string text = std::string(kSmallCluster) + "until: \"40s\"\ncosts { restart: \"4s\" detect: \"1s\" }\n" +
                     job_text("a",
                              "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" } "
                              "checkpoint { every_steps: 10 host_memory_copy: true }") +
                     "events { at: \"21s\" fail { devices: [1] } }\n";
  const std::string fast = "write: \"1GB/s\"";
  text.replace(text.find(fast), fast.size(), "write: \"1MB/s\"");
  const Scenario scenario = scenario_of(text);
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  expect_running(*ran.report);
  ASSERT_EQ(ran.report->jobs[0].reconfigurations.size(), 1u);
  EXPECT_EQ(ran.report->jobs[0].reconfigurations[0].step, 10);
  double second_done_s = 0;
  for (const control::Event& event : ran.report->events) {
    const auto* done = std::get_if<control::BackgroundDone>(&event.body);
    if (done != nullptr && done->tag == 2) second_done_s = event.at_s;
  }
  EXPECT_EQ(second_done_s, 0) << "it never arrives";
}

// A person asks for another size, then for the end: the state of the end is in the last checkpoint.
TEST(ExecRuntime, RequestsFromOutsideAreEventsAndAStopLeavesACheckpoint) {
  const Scenario scenario =
      scenario_of(std::string(kSmallCluster) + "until: \"1000s\"\n" +
                  job_text("a",
                           "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } "
                           "configs { layout: \"tp2,pp2,dp2\" step_time: \"1s\" } redundancy { copies: 1 where: "
                           "OTHER_HOST every_steps: 5 }"));
  const Folder folder;
  LiveRequests requests;
  requests.add(control::UserResize{.job = 0, .gpus = 8});
  std::atomic<int> copies = 0;
  const auto ask = [&](int32_t host, const std::string& what) {
    if (host == 0 && what == "copy" && ++copies == 3) requests.add(control::UserStop{});
    return false;
  };
  ExecOptions options;
  options.requests = &requests;
  const Ran ran = execute(scenario, "reshard", folder.path(), {.swallow = ask}, std::move(options));
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  const control::JobRecord& job = ran.report->jobs[0];
  EXPECT_EQ(job.state, "stopped");
  EXPECT_EQ(job.reconfigurations.size(), 1u);
  EXPECT_LT(ran.report->end_s, 100);
  EXPECT_EQ(job.steps, 10) << "the boundary at which the third copy was made";
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/checkpoints/a/step_00000010"));
  expect_replayable(*ran.report, folder.path());
}

// ---- deaths that nobody asked for -----------------------------------------------------------------------------------

// Grows and shrinks, with checkpoints and copies; every host has a replica elsewhere.
std::string short_one() {
  return std::string(kSmallCluster) + "until: \"50s\"\n" + kCosts +
         job_text("a",
                  "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2,dp4\" "
                  "step_time: \"600ms\" } configs { layout: \"tp2\" step_time: \"2s\" } "
                  "checkpoint { every_steps: 12 } redundancy { copies: 1 where: OTHER_HOST every_steps: 9 }") +
         "events { at: \"10s\" resize { gpus: 8 } }\n"
         "events { at: \"30s\" redeploy { devices: [4, 5, 0, 1] } }\n";
}

struct Mortal {
  std::string strategy, what;
  int most;  // its n-th command of the name, n up to this
};

TEST(ExecRuntime, GoesOnFromSurvivorsWhereverAWorkerDies) {
  const Scenario scenario = scenario_of(short_one());
  const std::vector<Mortal> mortals = {
      {"reshard", "create", 1},

      {"reshard", "advance", 3},     {"reshard", "prepare", 2},          {"reshard", "round", 2},
      {"reshard", "verify", 2},      {"reshard", "commit", 2},           {"reshard", "copy", 2},
      {"reshard", "write", 2},       {"reshard", "forget", 2},           {"tenplex", "stage", 2},
      {"tenplex", "round", 1},       {"checkpoint-restart", "round", 1}, {"checkpoint-restart", "prepare", 2},
      {"full-migration", "stage", 1}};
  size_t index = 0;
  for (const auto& [strategy, what, most] : mortals) {
    int deaths = 0, played = 0;
    for (int n = 0; n < 2 * most; ++n) {
      if (!in_share(index++, 3)) continue;
      ++played;
      const Death death{.host = n % 2, .what = what, .nth = n / 2 + 1, .after = n % 2 == 1};
      SCOPED_TRACE(fmt::format("{}: h{} dies {} {} {}", strategy, death.host, death.after ? "after" : "before", what,
                               death.nth));
      const Folder folder;
      const Ran ran = execute(scenario, strategy, folder.path(), {.deaths = {death}});
      ASSERT_TRUE(ran.report.ok()) << ran.report.status();
      deaths += ran.deaths;
      expect_running(*ran.report);
      expect_replayable(*ran.report, folder.path());
    }
    EXPECT_TRUE(deaths > 0 || played < most) << strategy << " " << what;
  }
}

// Of a plan of many rounds a receiver dies after each of them: the rest of it goes elsewhere, and nothing is lost.
TEST(ExecRuntime, AReceiverDiesAfterAnyOfItsRounds) {
  const Scenario scenario =
      scenario_of(std::string(kSmallCluster) + "until: \"60s\"\n" + kCosts + "planner { round_bytes: \"150kB\" }\n" +
                  job_text("a",
                           "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" } configs { layout: \"tp2,pp2\" "
                           "step_time: \"1s\" }") +
                  "events { at: \"10s\" resize { gpus: 4 } }\n");
  std::atomic<int> rounds = 0;
  const auto count = [&](int32_t host, const std::string& what) {
    rounds += host == 1 && what == "round" ? 1 : 0;
    return false;
  };
  const Folder whole_folder;
  const Ran whole = execute(scenario, "reshard", whole_folder.path(), {.swallow = count});
  ASSERT_TRUE(whole.report.ok()) << whole.report.status();
  ASSERT_GE(rounds, 5);
  for (int nth = 1; nth <= rounds; ++nth) {
    SCOPED_TRACE(fmt::format("after round {} of {}", nth, rounds.load()));
    const Folder folder;
    const Ran ran = execute(scenario, "reshard", folder.path(),
                            {.deaths = {{.host = 1, .what = "round", .nth = nth, .after = true}}});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.deaths, 1);
    expect_running(*ran.report);
    EXPECT_EQ(ran.report->jobs[0].lost_steps, 0) << "the old epoch was complete";
    expect_replayable(*ran.report, folder.path());
  }
}

// Under a memory cap old state goes from the second round on: then a death leads back to the checkpoint, before it to
// the old epoch.
TEST(ExecRuntime, UnderAMemoryCapADeathLeadsBackToWhatCoversIt) {
  const Scenario scenario = scenario_of(
      std::string(kSmallCluster) + "until: \"60s\"\n" + kCosts + "planner { memory_cap: \"60kB\" }\n" +
      job_text(
          "a",
          "gpus: 8 configs { layout: \"tp4,dp2\" step_time: \"1s\" } configs { layout: \"tp2,dp2\" step_time: \"1s\" } "
          "checkpoint { every_steps: 4 host_memory_copy: true }") +
      "events { at: \"10s\" resize { gpus: 4 } }\n");
  std::atomic<int> rounds = 0;
  const auto count = [&](int32_t host, const std::string& what) {
    rounds += host == 0 && what == "round" ? 1 : 0;
    return false;
  };
  const Folder whole_folder;
  const Ran whole = execute(scenario, "reshard", whole_folder.path(), {.swallow = count});
  ASSERT_TRUE(whole.report.ok()) << whole.report.status();
  expect_running(*whole.report);
  ASSERT_TRUE(plan::frees_early(whole.report->plans[0]));
  ASSERT_GE(rounds, 4);
  EXPECT_EQ(whole.report->jobs[0].lost_steps, 0);
  for (int nth = 1; nth <= rounds; nth += nth < 4 ? 1 : soaking() ? 5 : 15) {
    SCOPED_TRACE(fmt::format("in round {} of {}", nth, rounds.load()));
    const Folder folder;
    const Ran ran = execute(scenario, "reshard", folder.path(), {.deaths = {{.host = 0, .what = "round", .nth = nth}}});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.deaths, 1);
    expect_running(*ran.report);
    EXPECT_EQ(ran.report->jobs[0].lost_steps > 0, nth > 1) << "other hosts had replicas of the old epoch";
    expect_replayable(*ran.report, folder.path());
  }
}

// The change comes before the first redundant copy is due.
TEST(ExecRuntime, UnderAMemoryCapRedundancyCoversFromTheStart) {
  const Scenario scenario = scenario_of(
      std::string(kSmallCluster) + "until: \"60s\"\n" + kCosts + "planner { memory_cap: \"60kB\" }\n" +
      job_text("a",
               "gpus: 8 configs { layout: \"tp4,dp2,zero1\" step_time: \"1s\" } configs { layout: \"tp2,dp2\" "
               "step_time: \"1s\" } redundancy { copies: 1 every_steps: 50 }") +
      "events { at: \"10s\" resize { gpus: 4 } }\n");
  for (const int host : {0, 3}) {
    SCOPED_TRACE(fmt::format("h{} dies", host));
    const Folder folder;
    const Ran ran = execute(scenario, "reshard", folder.path(),
                            {.deaths = {{.host = 0, .what = "round", .nth = 2, .victim = host}}});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.deaths, 1);
    ASSERT_TRUE(plan::frees_early(ran.report->plans[0]));
    expect_running(*ran.report);
    EXPECT_EQ(ran.report->jobs[0].lost_steps, 10) << "back to the state it began with";
    expect_replayable(*ran.report, folder.path());
  }
}

// Another host dies while a round runs on this one. When nobody needs it in that round, the next one gives up old
// state.
TEST(ExecRuntime, ALossThatIsHeardOfInARoundComesBeforeWhatFollowsTheRound) {
  const Scenario scenario =
      scenario_of(std::string(kSmallCluster) + "until: \"60s\"\n" + kCosts + "planner { memory_cap: \"60kB\" }\n" +
                  job_text("a",
                           "gpus: 8 configs { layout: \"tp2,dp4\" step_time: \"1s\" } "
                           "configs { layout: \"pp2\" step_time: \"1s\" } "
                           "checkpoint { every_steps: 4 host_memory_copy: true }") +
                  "events { at: \"10s\" resize { gpus: 2 } }\n");
  for (int nth = 1; nth <= 3; ++nth) {
    SCOPED_TRACE(fmt::format("h2 dies in round {}", nth));
    const Folder folder;
    const Ran ran = execute(scenario, "reshard", folder.path(),
                            {.deaths = {{.host = 0, .what = "round", .nth = nth, .victim = 2}}});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.deaths, 1);
    ASSERT_TRUE(plan::frees_early(ran.report->plans[0]));
    expect_running(*ran.report);
    expect_replayable(*ran.report, folder.path());
  }
}

TEST(ExecRuntime, AJobThatWaitsBeginsWhenThereIsRoom) {
  const std::string text = std::string(kSmallCluster) + "until: \"60s\"\n" + kCosts +
                           job_text("a", "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" }") +
                           job_text("b", "devices: [2, 3] configs { layout: \"tp2\" step_time: \"1s\" }") +
                           "events { at: \"20s\" redeploy { job: \"a\" devices: [4, 5, 6, 7] } }\n";
  const Scenario scenario = scenario_of(text);
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_GT(ran.report->jobs[1].steps, 10);
  expect_replayable(*ran.report, folder.path());
}

TEST(ExecRuntime, GoesOnWhenAWorkerDiesBeforeTheFirstCommand) {
  const Scenario scenario = scenario_of(short_one());
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path(), {.dead_at_start = 1});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  expect_running(*ran.report);
  expect_replayable(*ran.report, folder.path());
}

TEST(ExecRuntime, AHostThatOnlyKeepsCopiesMayDieWhileItGetsThem) {
  const std::string text = std::string(kSmallCluster) + "until: \"60s\"\n" + kCosts +
                           job_text("a",
                                    "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" } "
                                    "redundancy { copies: 2 where: OTHER_HOST every_steps: 10 }") +
                           "events { at: \"35s\" fail { devices: [0] } }\n";
  const Scenario scenario = scenario_of(text);
  for (const bool after : {false, true}) {
    const Folder folder;
    const Ran ran = execute(scenario, "reshard", folder.path(),
                            {.deaths = {{.host = 1, .what = "copy", .nth = 2, .after = after}}});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.deaths, 1);
    ASSERT_EQ(ran.report->jobs[0].reconfigurations.size(), 1u);
    EXPECT_EQ(ran.report->jobs[0].reconfigurations[0].step, 30) << "the third copy is on h2";
    expect_replayable(*ran.report, folder.path());
  }
}

}  // namespace
}  // namespace scalai::executor::controller
