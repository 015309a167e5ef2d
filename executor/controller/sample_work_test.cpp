#include "executor/controller/sample_work.h"

#include <gmock/gmock.h>

#include <atomic>

#include "executor/controller/testing/test_fleet.h"
#include "ptc/store/datasets/build.h"
#include "ptc/store/datasets/index.h"

namespace scalai::executor::controller {
namespace sample_work_test {

using control::DatasetRecord;
using control::testing::job_text;
using control::testing::kSmallCluster;
using scenario::Scenario;
using testing::execute;
using testing::expect_replayable;
using testing::Folder;
using ::testing::HasSubstr;
using testing::Ran;

Scenario scenario_of(const std::string& text) {
  auto scenario = control::testing::scenario_of(text);
  SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
  return *std::move(scenario);
}

// Grows to a dp that does not divide the batch, moves, loses a host in mid-reconfiguration, loses all replicas and goes
// back to a checkpoint, shrinks. 50 samples are some passes; the last batch of each is short.
std::string eventful(const std::string& dataset = "samples: 50") {
  return std::string(kSmallCluster) +
         "until: \"150s\"\ncosts { restart: \"2s\" communicator: \"1s\" detect: \"3s\" }\n" +
         job_text("a",
                  "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2,dp3\" step_time: "
                  "\"600ms\" } configs { layout: \"tp2\" step_time: \"2s\" } checkpoint { every_steps: 20 } "
                  "dataset { " +
                      dataset + " }") +
         "events { at: \"10s\" resize { gpus: 6 } }\n"
         "events { at: \"30s\" resize { gpus: 4 } }\n"
         "events { at: \"50s\" redeploy { devices: [4, 5, 6, 7] } }\n"
         "events { during { reconfiguration: 3 after_round: 0 } fail { hosts: [2] } }\n"
         "events { at: \"80s\" repair { hosts: [2] } }\n"
         "events { at: \"100s\" fail { hosts: [2, 3] } }\n"
         "events { at: \"120s\" repair { hosts: [2, 3] } }\n";
}

void expect_exactly_once(const control::RunReport& report) {
  ASSERT_TRUE(report.jobs[0].dataset.has_value());
  const DatasetRecord& dataset = *report.jobs[0].dataset;
  EXPECT_EQ(report.jobs[0].state, "running") << report.jobs[0].failure;
  EXPECT_EQ(dataset.exactly_once, true);
  EXPECT_EQ(dataset.samples_read, report.jobs[0].samples + dataset.samples_again);
  EXPECT_EQ(dataset.steps_again, report.jobs[0].lost_steps);
}

class EveryStrategyReads : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryStrategyReads, ExactlyOnceThroughEverything) {
  const Scenario scenario = scenario_of(eventful());
  const Folder folder;
  const Ran ran = execute(scenario, GetParam(), folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  expect_exactly_once(*ran.report);
  EXPECT_GE(ran.report->jobs[0].reconfigurations.size(), 3u);
  EXPECT_GT(ran.report->jobs[0].dataset->steps_again, 0);
  EXPECT_GE(ran.report->jobs[0].dataset->pass, 5);
  expect_replayable(*ran.report, folder.path());
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategyReads, ::testing::Values("reshard", "tenplex", "checkpoint-restart"),
                         [](const auto& strategy) {
                           return strategy.param == "checkpoint-restart" ? "checkpoint_restart" : strategy.param;
                         });

// Whoever dies around a read: another one reads instead.
TEST(SampleWork, ADeathLeavesTheReadingToOthers) {
  const Scenario scenario = scenario_of(eventful());
  int deaths = 0;
  for (const int32_t host : {0, 1}) {
    for (const int nth : {1, 3}) {
      for (const bool after : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "h" << host << " dies " << (after ? "after" : "at") << " read " << nth);
        const Folder folder;
        const Ran ran = execute(scenario, "reshard", folder.path(),
                                {.deaths = {{.host = host, .what = "read", .nth = nth, .after = after}}});
        ASSERT_TRUE(ran.report.ok()) << ran.report.status();
        expect_exactly_once(*ran.report);
        deaths += ran.deaths;
      }
    }
  }
  EXPECT_EQ(deaths, 8);
}

// Nobody lives who could read: it is read when somebody does.
TEST(SampleWork, WaitsForAWorker) {
  const Scenario scenario = scenario_of(
      std::string(kSmallCluster) + "until: \"60s\"\ncosts { restart: \"1s\" communicator: \"1s\" detect: \"3s\" }\n" +
      job_text("a",
               "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } checkpoint { every_steps: 10 } dataset { "
               "samples: 50 }") +
      "events { at: \"15.5s\" fail { hosts: [0, 1, 2, 3] } }\nevents { at: \"30s\" repair { hosts: [1, 2] } }\n");
  const Folder folder;
  const Ran ran = execute(scenario, "reshard", folder.path());
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  expect_exactly_once(*ran.report);
  EXPECT_EQ(ran.report->jobs[0].dataset->steps_again, 5);
  for (const control::Event& event : ran.report->events) {
    const auto* read = std::get_if<control::SamplesRead>(&event.body);
    if (read != nullptr && read->from_step == 10 && read->step == 15) {
      EXPECT_GE(event.at_s, 30);
    }
  }
}

// A worker that accounts for nothing, or for something else.
TEST(SampleWork, WhatIsNotReadFailsTheJob) {
  const Scenario scenario = scenario_of(eventful());
  const Folder folder;
  std::atomic<int> reads = 0;
  const Ran ran = execute(scenario, "reshard", folder.path(), {.swallow = [&](int32_t host, const std::string& what) {
                            return what == "read" && host == 1 && ++reads == 2;
                          }});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(ran.report->jobs[0].state, "failed");
  EXPECT_THAT(ran.report->jobs[0].failure, HasSubstr("samples were not read exactly once in step"));
  EXPECT_THAT(ran.report->jobs[0].failure, HasSubstr("dp rank 1 read 0 samples, expected "));
  EXPECT_EQ(ran.report->jobs[0].dataset->exactly_once, false);
}

TEST(SampleWork, WithoutADatasetNothingIsAsked) {
  const Scenario scenario = scenario_of(std::string(kSmallCluster) + "until: \"20s\"\n" +
                                        job_text("a", "gpus: 2 configs { layout: \"dp2\" step_time: \"1s\" }"));
  const Folder folder;
  std::atomic<int> reads = 0;
  const Ran ran = execute(scenario, "reshard", folder.path(), {.swallow = [&](int32_t, const std::string& what) {
                            reads += what == "read" ? 1 : 0;
                            return false;
                          }});
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  EXPECT_EQ(reads, 0);
  EXPECT_FALSE(ran.report->jobs[0].dataset.has_value());
}

TEST(SampleWork, ContentIsReadFromTheDataFiles) {
  const Folder folder;
  ASSERT_TRUE(write_file(folder.path() + "/records", std::string(350, 'x')).ok());
  const std::string index = folder.path() + "/index";
  const auto built = datasets::build_index(
      {.format = datasets::Format::kFixed, .files = {folder.path() + "/records"}, .out = index, .record_bytes = 7});
  ASSERT_TRUE(built.ok()) << built.status();
  const Scenario scenario = scenario_of(eventful("index: \"" + index + "\""));
  EXPECT_EQ(scenario.jobs[0].dataset->state.samples, 50);
  const Ran ran = execute(scenario, "reshard", folder.path() + "/run");
  ASSERT_TRUE(ran.report.ok()) << ran.report.status();
  expect_exactly_once(*ran.report);
  EXPECT_EQ(*ran.report->jobs[0].dataset->bytes_read, 7 * *ran.report->jobs[0].dataset->samples_read);

  ASSERT_TRUE(write_file(folder.path() + "/records", std::string(349, 'x')).ok());
  const Ran changed = execute(scenario, "reshard", folder.path() + "/again");
  EXPECT_TRUE(absl::IsInvalidArgument(changed.report.status())) << changed.report.status();
  EXPECT_THAT(message_of(changed.report.status()), HasSubstr("records"));

  const Ran missing =
      execute(scenario, "reshard", folder.path() + "/missing", {}, {.datasets = {{0, "/nowhere/index"}}});
  EXPECT_THAT(message_of(missing.report.status()), HasSubstr("/nowhere/index"));
}

}  // namespace sample_work_test
}  // namespace scalai::executor::controller
