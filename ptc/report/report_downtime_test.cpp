#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ptc/report/internal/summary.h"
#include "ptc/report/testing/example_report.h"

namespace scalai::report {
namespace report_downtime_test {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const control::RunReport& report) { return summary_table(summary_json(report)); }

class DowntimeReport : public ::testing::Test {
 protected:
  const scenario::Scenario scenario_ = testing::example_scenario();
  control::RunReport report_ = testing::example_report(scenario_);
};

TEST_F(DowntimeReport, HasARowForEachCause) {
  EXPECT_THAT(text_of(report_),
              HasSubstr("\n"
                        "job          downtime           time  why\n"
                        "-----------  ---------------  ------  -----------------------------------------------\n"
                        "gpt          pauses           12.0 s  2 reconfigurations\n"
                        "gpt          waiting          3.00 s  no layout fits 1 GPUs\n"
                        "gpt          steps run again  3.00 s  3 steps done after the snapshot\n"
                        "gpt          steps cut off    500 ms  by failures, or the end of the run\n"
                        "gpt          snapshot stalls  1.50 s  training stood still for checkpoints and copies\n"
                        "bert, large  waiting           100 s  queued; until the end of the run\n"));
}

TEST_F(DowntimeReport, ManyReasonsAreTheLongestAndTheRest) {
  std::vector<control::WaitRecord>& waits = report_.jobs[0].downtime.waits;
  waits.clear();
  for (int i = 1; i <= 6; ++i) waits.push_back({.reason = fmt::format("reason {}", i), .seconds = 10.0 * i});
  EXPECT_THAT(text_of(report_), HasSubstr("gpt          waiting          60.0 s  reason 6\n"
                                          "gpt          waiting          50.0 s  reason 5\n"
                                          "gpt          waiting          40.0 s  reason 4\n"
                                          "gpt          waiting          30.0 s  reason 3\n"
                                          "gpt          waiting          30.0 s  2 other reasons\n"));
}

TEST_F(DowntimeReport, IsInTheSummary) {
  const Json json = Json::parse(summary_json(report_));
  EXPECT_EQ(json.at("/jobs/0/downtime"_json_pointer), Json::parse(R"({"reconfigurations_s": 12, "waiting_s": 3,
                            "waits": [{"reason": "no layout fits 1 GPUs", "seconds": 3, "until_end": false}],
                            "run_again_s": 3, "cut_off_s": 0.5, "snapshots_s": 1.5})"));
  EXPECT_EQ(json.at("/losses"_json_pointer),
            Json::parse(R"([{"at_s": 50, "noticed_s": 65, "devices": "g2-g3", "gpus": 2,
                             "effects": [{"job": "gpt", "outcome": "reconfigures", "reconfiguration": 2}]}])"));
}

TEST_F(DowntimeReport, ALossThatNothingFollowedHasARowOfItsOwn) {
  EXPECT_THAT(text_of(report_), Not(HasSubstr("g2-g3"))) << "a reconfiguration tells of it";
  report_.losses.push_back({.at_s = 20, .noticed_s = 25, .devices = {DeviceId(3)}, .effects = {}});
  EXPECT_THAT(text_of(report_), HasSubstr("\n     20.0 s  lost g3      no job used them"));
  EXPECT_TRUE(Json::parse(summary_json(report_)).at("/losses/1/effects"_json_pointer).empty());
  report_.losses[1].effects = {{.job = 1, .outcome = "waits", .reconfiguration = 0}};
  EXPECT_THAT(text_of(report_), HasSubstr("lost g3      bert, large waits"));
  EXPECT_TRUE(Json::parse(summary_json(report_)).at("/losses/1/effects/0/reconfiguration"_json_pointer).is_null());
}

TEST_F(DowntimeReport, TheCauseOfALossIsTold) {
  EXPECT_FALSE(Json::parse(summary_json(report_)).at("/losses/0"_json_pointer).contains("cause"));
  report_.losses[0].cause = "the worker of h1: connection closed: killed by signal 9 (Killed)";
  EXPECT_EQ(Json::parse(summary_json(report_)).at("/losses/0/cause"_json_pointer), report_.losses[0].cause);
  EXPECT_THAT(text_of(report_), HasSubstr("lost g2-g3: the worker of h1: connection closed: killed by signal 9"));
}

TEST_F(DowntimeReport, WhatAJobDoesAboutANoticeIsTold) {
  EXPECT_FALSE(Json::parse(summary_json(report_)).at("/jobs/0"_json_pointer).contains("notices"));
  control::NoticeRecord notice{.at_s = 10,
                               .deadline_s = 40,
                               .devices = {DeviceId(2), DeviceId(3)},
                               .answer = "leaves",
                               .starts_s = 31,
                               .takes_s = 8,
                               .only_there_bytes = 8'000'000'000,
                               .in_time_bytes = 8'000'000'000,
                               .lost = {},
                               .step = 30};
  report_.jobs[0].notices = {notice};
  EXPECT_EQ(Json::parse(summary_json(report_)).at("/jobs/0/notices"_json_pointer),
            Json::parse(R"([{"at_s": 10, "deadline_s": 40, "devices": "g2-g3", "answer": "leaves", "starts_s": 31,
                             "takes_s": 8, "only_there_bytes": 8000000000, "in_time_bytes": 8000000000, "lost": "",
                             "step": 30, "repeated_steps": 0, "repeated_s": 0}])"));
  const auto told = [&](const control::NoticeRecord& one) {
    report_.jobs[0].notices = {one};
    return summary_table(summary_json(report_), {.columns = 1000});
  };
  EXPECT_THAT(told(notice),
              HasSubstr("gpt: g2-g3 to be left by 40.0 s, told 30.0 s before: trains on for 21.0 s and leaves; "
                        "8.00 GB that only they hold are out in 8.00 s\n"));
  notice.only_there_bytes = notice.in_time_bytes = 0;
  EXPECT_THAT(told(notice), HasSubstr("trains on for 21.0 s and leaves; others hold all of its state\n"));
  notice.answer = "checkpoint";
  EXPECT_THAT(told(notice), HasSubstr("trains on for 21.0 s and writes a checkpoint in 8.00 s\n"));
  notice.starts_s = notice.at_s;
  EXPECT_THAT(told(notice), HasSubstr(": at once writes a checkpoint in 8.00 s\n"));
  notice.answer = "copies";
  notice.only_there_bytes = 8'000'000'000;
  EXPECT_THAT(told(notice), HasSubstr("at once copies 8.00 GB that only they hold to hosts that stay, in 8.00 s\n"));
  notice.answer = "goes back";
  notice.in_time_bytes = 4'000'000'000;
  notice.lost = {"tensor \"w\" [0:8]"};
  notice.step = 20;
  notice.repeated_steps = 3;
  notice.repeated_s = 6;
  EXPECT_THAT(told(notice),
              HasSubstr("4.00 GB of 8.00 GB that only they hold can be out in time; without: tensor \"w\" "
                        "[0:8]; so at once back to step 20: 3 steps (6.00 s) are run again\n"));
  notice.starts_s = 40;
  EXPECT_THAT(told(notice), HasSubstr("; so unless a copy under way arrives, back to step 20: "));
  notice.answer = "loses";
  EXPECT_THAT(told(notice), HasSubstr("; there is no copy to go back to: step 20 is lost\n"));
}

TEST_F(DowntimeReport, WithOneJobLossesComeAtTheirTime) {
  report_.jobs.resize(1);
  report_.losses.push_back({.at_s = 20, .noticed_s = 25, .devices = {DeviceId(3)}, .effects = {}});
  const std::string text = text_of(report_);
  EXPECT_LT(text.find("resize to 4"), text.find("lost g3 "));
  EXPECT_LT(text.find("lost g3 "), text.find("lost g2, g3"));
}

TEST_F(DowntimeReport, ReportsThatAreOlderThanItCanBeRead) {
  Json old = Json::parse(summary_json(report_));
  for (Json& job : old["jobs"]) job.erase("downtime");
  old.erase("losses");
  EXPECT_THAT(summary_table(old.dump()), Not(HasSubstr("snapshot stalls")));
  const auto csv = compare_summaries({{"old", old.dump()}, {"new", summary_json(report_)}}, "csv");
  ASSERT_TRUE(csv.ok()) << csv.status();
  EXPECT_THAT(*csv, HasSubstr("gpt,downtime_s,s,20,20,1\n"));
  EXPECT_THAT(*csv, HasSubstr("gpt,downtime_waiting_s,s,,3,\n"));
  EXPECT_THAT(*csv, HasSubstr("gpt,downtime_snapshots_s,s,,1.5,\n"));
}

}  // namespace report_downtime_test
}  // namespace scalai::report
