#include "apps/common/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

class RunReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-apps-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static absl::StatusOr<RunOptions> options(const std::vector<std::string>& words) {
    const CommandSpec spec{.name = "test", .options = run_option_specs(), .min_arguments = 1, .max_arguments = 1};
    SCALAI_ASSIGN_OR_RETURN(const Arguments arguments, parse_arguments(spec, words));
    return run_options(arguments);
  }
  // Runs a report of one job.
  int run(const std::string& strategy, const std::string& out, const std::string& state, const std::string& expect = "",
          const std::string& in_config = "") {
    const auto scenario = control::testing::scenario_of(
        std::string(control::testing::kSmallCluster) + "until: \"1s\"\n" +
        control::testing::job_text("a", "gpus: 2 configs { layout: \"tp2\" " + in_config + " }") + expect);
    SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
    return run_one(
        "scalai-test", *scenario, strategy, {.out = out, .format = "json"}, [&](const scenario::Strategy& one) {
          control::RunReport report{.scenario = &*scenario, .strategy = one.name, .runtime = "exec"};
          report.jobs.push_back({.name = "a", .state = state, .failure = state == "running" ? "" : "no state"});
          report.unreached = {"events[3] (at step 500)"};
          return absl::StatusOr<control::RunReport>(std::move(report));
        });
  }

  std::string folder_;
};

TEST_F(RunReportTest, OptionsAreReadAndRefused) {
  const auto good = options({"a.textproto", "--out=o", "--scale-model=1/8", "--check", "--format=csv"});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->scenario, "a.textproto");
  EXPECT_EQ(good->out, "o");
  EXPECT_TRUE(good->scale.has_value());
  EXPECT_TRUE(good->check);
  EXPECT_EQ(good->format, "csv");
  EXPECT_EQ(options({"a"})->format, "table");
  EXPECT_THAT(message_of(options({"a", "--scale-model=2"}).status()), StartsWith("--scale-model: \"2\""));
  EXPECT_THAT(message_of(options({"-"}).status()), HasSubstr("standard input is not read here"));
}

TEST_F(RunReportTest, AnExecutedRunIsNotHeldToDurationsOfTheModel) {
  CaptureStdout();
  CaptureStderr();
  EXPECT_EQ(
      run("reshard", "", "running", "expect { metric: \"/jobs/0/reconfigurations/0/phases_s/transfer\" equals: 0 }"),
      0);
  EXPECT_EQ(run("reshard", "", "running", "expect { metric: \"/jobs/0/steps\" equals: 7 }"), 1);
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("/jobs/0/steps is 0, expected exactly 7"));
  GetCapturedStdout();
}

TEST_F(RunReportTest, LoadingSaysWhatIsWrongAndHowItEnds) {
  int code = 0;
  CaptureStderr();
  EXPECT_FALSE(load({.scenario = folder_ + "/none.textproto"}, code));
  EXPECT_EQ(code, 4);
  ASSERT_TRUE(write_file(folder_ + "/bad.textproto", "evnts {}\n").ok());
  EXPECT_FALSE(load({.scenario = folder_ + "/bad.textproto"}, code));
  EXPECT_EQ(code, 3);
  const std::string said = GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("none.textproto: cannot open"));
  EXPECT_THAT(said, HasSubstr("bad.textproto:1:1: error:"));
}

TEST_F(RunReportTest, FoldersAreMadeOrNamed) {
  EXPECT_TRUE(prepare_folder(folder_ + "/a/b").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder_ + "/a/b"));
  ASSERT_TRUE(write_file(folder_ + "/file", "x").ok());
  EXPECT_THAT(message_of(prepare_folder(folder_ + "/file")), HasSubstr(folder_ + "/file"));
}

TEST_F(RunReportTest, TheReportIsWrittenAndPrinted) {
  CaptureStdout();
  CaptureStderr();
  const int code = run("reshard", folder_ + "/report", "running");
  const std::string printed = GetCapturedStdout(), said = GetCapturedStderr();
  EXPECT_EQ(code, 0);
  EXPECT_EQ(printed, read_file(folder_ + "/report/summary.json").value());
  EXPECT_EQ(said, "scalai-test: warning: events[3] (at step 500) never happened\n");
  EXPECT_THAT(read_file(folder_ + "/report/manifest.json").value(), HasSubstr("\"revision\""));
}

TEST_F(RunReportTest, GivenStepTimesDoNotFeelLinks) {
  const std::string degraded = "events { at: \"0.5s\" degrade { links: \"h0.nic0.up\" factor: 0.5 } }\n";
  const std::string warning = "warning: job a: links that fail or degrade do not slow steps whose step_time is given";
  for (const bool given : {true, false}) {
    CaptureStdout();
    CaptureStderr();
    EXPECT_EQ(run("reshard", "", "running", degraded, given ? "step_time: \"1s\"" : ""), 0);
    (void)GetCapturedStdout();
    EXPECT_EQ(GetCapturedStderr().find(warning) != std::string::npos, given);
  }
}

TEST_F(RunReportTest, StrategiesNeedWhatTheyNeed) {
  const auto scenario = control::testing::scenario_of(
      std::string(control::testing::kSmallCluster) + "until: \"1s\"\n" +
      control::testing::job_text("a", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" }"));
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  const auto said = [&](const std::vector<std::string>& strategies, int code) {
    int exit_code = -1;
    CaptureStderr();
    EXPECT_EQ(strategies_fit("scalai-test", *scenario, strategies, exit_code), code == 0);
    EXPECT_EQ(exit_code, code);
    return GetCapturedStderr();
  };
  EXPECT_EQ(said({"reshard", "tenplex"}, 0), "");
  EXPECT_EQ(said({"reshard", "checkpoint-restart"}, 3),
            "scalai-test: error: --strategy=checkpoint-restart: job \"a\" writes no checkpoints to restart from\n"
            "hint: add checkpoint { every_steps: 100 }\n");
  EXPECT_THAT(said({"dp-only"}, 0),
              StartsWith("scalai-test: warning: strategy dp-only: layout tp2 of job a has dp 1: "));
  EXPECT_EQ(said({"reshard", "dp-only"}, 0), "") << "the process that runs it warns";
}

TEST_F(RunReportTest, FailedJobsAndExpectationsDecideTheExitCode) {
  CaptureStdout();
  CaptureStderr();
  EXPECT_EQ(run("reshard", "", "failed"), 5);
  EXPECT_EQ(run("reshard", "", "waiting"), 0);
  EXPECT_EQ(run("reshard", "", "running", "expect { metric: \"/jobs/0/steps\" equals: 7 }\n"), 1);
  EXPECT_EQ(run("no-such-strategy", "", "running"), 3);
  EXPECT_EQ(run("reshard", "/proc/nowhere", "running"), 4);
  (void)GetCapturedStdout();
  const std::string said = GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("scalai-test: error: job a: no state\n"));
  EXPECT_THAT(said, HasSubstr("scalai-test: warning: job a waits at the end: no state\n"));
  EXPECT_THAT(said, HasSubstr("/jobs/0/steps is 0, expected exactly 7"));
  EXPECT_THAT(said, HasSubstr("no-such-strategy"));
}

TEST_F(RunReportTest, TheNextStepNamesTheTraceIfThereIsOne) {
  EXPECT_THAT(next_step(""), StartsWith("--out=DIR keeps the report"));
  EXPECT_THAT(next_step(folder_), StartsWith("a page to show: scalai report " + folder_ + " --out=report.html"));
  ASSERT_TRUE(write_file(folder_ + "/trace.pftrace", "").ok());
  EXPECT_THAT(next_step(folder_), StartsWith("trace: " + folder_ + "/trace.pftrace in ui.perfetto.dev; a page"));
}

}  // namespace
}  // namespace scalai::apps
