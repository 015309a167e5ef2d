// Notices on real workers: state that leaves in time arrives whole, whoever dies after that.

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>

#include "executor/controller/exec_runtime.h"
#include "executor/controller/testing/test_fleet.h"

namespace scalai::executor::controller {
namespace notices_test {

using control::testing::job_text;
using testing::execute;
using testing::expect_replayable;
using testing::Folder;
using testing::Ran;

// Two stages of two GPUs, one on h0 and one on h1, whose NICs carry 0.9 MB/s. A change to h0 alone reads h1, then what
// g0 and g1 have of each other.
scenario::Scenario staged(const std::string& more, const std::string& events) {
  std::string text = control::testing::kSmallCluster;
  text.replace(text.find("nic: \"1GB/s\""), 12, "nic: \"1MB/s\"");
  auto scenario = control::testing::scenario_of(
      text + "until: \"200s\"\ncosts { communicator: \"0s\" detect: \"2s\" }\n" +
      job_text(
          "a",
          "gpus: 4 configs { layout: \"tp2,pp2\" step_time: \"1s\" } configs { layout: \"pp2\" step_time: \"2s\" } "
          "configs { layout: \"tp1\" step_time: \"3s\" } " +
              more) +
      events);
  SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
  return *std::move(scenario);
}
// h2 and h3 are there for nobody.
constexpr const char* kOthersFail = "events { at: \"1s\" fail { hosts: [2, 3] } }\n";

TEST(ExecNotices, EveryStrategySavesAllInTime) {
  const scenario::Scenario scenario =
      staged("checkpoint { every_steps: 1000 }",
             std::string(kOthersFail) + "events { at: \"20s\" preempt { hosts: 1 notice: \"30s\" } }\n");
  for (const std::string& strategy : scenario::strategy_names()) {
    SCOPED_TRACE(strategy);
    const Folder folder;
    const Ran ran = execute(scenario, strategy, folder.path());
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    const control::JobRecord& job = ran.report->jobs[0];
    ASSERT_EQ(job.notices.size(), 1u);
    EXPECT_NE(job.notices[0].answer, "goes back");
    EXPECT_TRUE(job.notices[0].lost.empty());
    EXPECT_EQ(job.lost_steps, 0) << job.notices[0].answer;
    EXPECT_EQ(job.state, strategy == "dp-only" ? "waiting" : "running") << job.failure;
    expect_replayable(*ran.report, folder.path());
  }
}

// The worker of h1 dies by itself while h0 is in its n-th part of a round: after the rounds that read h1 the change
// goes on to its commit; before that nobody has its stage any more.
TEST(ExecNotices, AWorkerThatIsReadNoMoreMayDie) {
  const scenario::Scenario scenario =
      staged("", std::string(kOthersFail) + "events { at: \"20s\" preempt { hosts: 1 notice: \"30s\" } }\n");
  std::atomic<int> parts = 0;
  const auto count = [&](int32_t host, const std::string& what) {
    parts += host == 0 && what == "round" ? 1 : 0;
    return false;
  };
  const Folder whole_folder;
  const Ran whole = execute(scenario, "reshard", whole_folder.path(), {.swallow = count});
  ASSERT_TRUE(whole.report.ok()) << whole.report.status();
  ASSERT_EQ(whole.report->plans.at(0).rounds(), 2);
  ASSERT_GE(parts, 2);
  std::string states;
  for (int nth = 1; nth <= parts; ++nth) {
    const Folder folder;
    const Ran ran = execute(scenario, "reshard", folder.path(),
                            {.deaths = {{.host = 0, .what = "round", .nth = nth, .victim = 1}}});
    ASSERT_TRUE(ran.report.ok()) << ran.report.status();
    EXPECT_EQ(ran.deaths, 1);
    EXPECT_EQ(ran.report->jobs[0].lost_steps, 0);
    states += ran.report->jobs[0].state + " ";
    expect_replayable(*ran.report, folder.path());
  }
  EXPECT_TRUE(states.ends_with("running ")) << states;
  EXPECT_TRUE(states.starts_with("failed ")) << states;
}

// A person says that h1 goes in 60 s: all of it leaves at the next step boundary.
TEST(ExecNotices, ADrainWithADeadline) {
  const scenario::Scenario scenario = staged("", kOthersFail);
  LiveRequests requests;
  requests.add(control::UserDrain{.devices = control::testing::device_ids({2, 3}), .notice_s = 60});
  ExecOptions options;
  options.requests = &requests;
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path(), {}, std::move(options));
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  const control::JobRecord& job = ran.report->jobs[0];
  ASSERT_EQ(job.notices.size(), 1u);
  EXPECT_EQ(job.notices[0].answer, "leaves");
  EXPECT_EQ(job.lost_steps, 0);
  EXPECT_THAT(job.reconfigurations.at(0).cause, ::testing::StartsWith("drain of g2-g3"));
  expect_replayable(*ran.report, folder.path());
}

// As SIGTERM, with a minute until all is over: the last checkpoint is there.
TEST(ExecNotices, AStopWithADeadlineLeavesACheckpoint) {
  const scenario::Scenario scenario = staged("", kOthersFail);
  LiveRequests requests;
  requests.add(control::UserStop{.notice_s = 60});
  ExecOptions options;
  options.requests = &requests;
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path(), {}, std::move(options));
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  const control::JobRecord& job = ran.report->jobs[0];
  EXPECT_EQ(job.state, "stopped");
  EXPECT_EQ(job.notices.at(0).answer, "checkpoint");
  EXPECT_TRUE(std::filesystem::exists(fmt::format("{}/checkpoints/a/step_{:08}", folder.path(), job.steps)));
}

}  // namespace notices_test
}  // namespace scalai::executor::controller
