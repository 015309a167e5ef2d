#include "ptc/report/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/version.h"
#include "ptc/plan/plan_io.h"
#include "ptc/report/internal/report_files.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/testing/example_report.h"
#include "ptc/run/control/event_text.h"

namespace scalai::report {
namespace report_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

class ReportTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("report_test.{}", ::getpid());
  scenario::Scenario scenario_ = testing::example_scenario();
  control::RunReport report_ = testing::example_report(scenario_);
};

// ---- transfers.csv, devices.csv -------------------------------------------------------------------------------------
TEST_F(ReportTest, TransfersHaveOneLineEach) {
  const std::string csv = transfers_csv(report_);
  EXPECT_THAT(csv, HasSubstr("2,gpt,1,transfer,1,g0,g2,cross_host,5000,14,14.75,0.75,6666.666666666667,done\n"));
  EXPECT_THAT(csv, HasSubstr("3,gpt,0,redundancy,0,g0,h1.mem,cross_host,700,14.5,15,0.5,1400,done\n"));
  EXPECT_THAT(csv, HasSubstr("4,gpt,2,transfer,1,g0,g2,cross_host,9000,70,71,1,9000,aborted\n"));
  EXPECT_THAT(csv, HasSubstr("5,gpt,2,load,0,g1,g1,same_device,40,71,71,0,,done\n"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
}

TEST_F(ReportTest, DevicesAddUp) {
  EXPECT_EQ(devices_csv(report_),
            "device,host,gpu,jobs,training_s,paused_s,sent_bytes,received_bytes,peak_state_bytes,lost_at_s\n"
            "g0,h0,a100-40gb,gpt,45,20,6700,0,900,\n"
            "g1,h0,a100-40gb,gpt,45,20,0,1060,0,\n"
            "g2,h1,a100-40gb,gpt,35,4,0,5000,300,50\n"
            "g3,h1,a100-40gb,gpt,35,4,0,0,0,50\n");
}

// ---- summary.json ---------------------------------------------------------------------------------------------------
TEST_F(ReportTest, SummaryHasTheKeysThatOthersRelyOn) {
  const Json json = Json::parse(summary_json(report_));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["version"], kVersion);
  EXPECT_EQ(json["scenario"], "grow-then-lose");
  EXPECT_EQ(json["seed"], 18446744073709551615U);
  const Json& job = json["jobs"][0];
  EXPECT_EQ(job["name"], "gpt");
  EXPECT_EQ(job["downtime_s"], 20);
  EXPECT_EQ(job["totals"]["pause_s"], 20.5);
  EXPECT_EQ(job["totals"]["bytes"]["cross_host"], 5000) << "only of completed reconfigurations";
  EXPECT_EQ(job["totals"]["transferred_bytes"],
            Json::parse(R"({"kept":0,"same_device":40,"same_host":1000,"cross_host":5700,"from_storage":60})"));
  const Json& first = job["reconfigurations"][0];
  EXPECT_EQ(first["plan_digest"], report_.plans[0].digest());
  EXPECT_EQ(first["plan_file"], "plans/001.binpb");
  EXPECT_EQ(first["bytes"],
            Json::parse(R"({"kept":10,"same_device":20,"same_host":1000,"cross_host":5000,"from_storage":0})"));
  EXPECT_EQ(first["lower_bound_any_placement"]["cross_host"], 2500);
  EXPECT_EQ(first["phases_s"]["restart"], 3);
  EXPECT_EQ(first["pause_s"], 5);
  EXPECT_EQ(first["survives_host_losses"], 1);
  EXPECT_TRUE(job["reconfigurations"][1]["resumed_s"].is_null());
}

TEST_F(ReportTest, SummaryReadsBackAsItWas) {
  const std::string text = summary_json(report_);
  const auto summary = read_summary(text);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->seed, 18446744073709551615U);
  ASSERT_EQ(summary->jobs.size(), 2U);
  EXPECT_EQ(summary->jobs[0].reconfigurations[1].phases_s.aborted, 0.5);
  EXPECT_EQ(summary->jobs[0].reconfigurations[0].resumed_s, 15);
  EXPECT_EQ(summary->jobs[0].totals.transferred_bytes.from_storage, 60);
  EXPECT_EQ(summary->jobs[1].name, "bert, large");
}

TEST_F(ReportTest, SummaryWithoutAPlanHasNoDigest) {
  report_.jobs[0].reconfigurations[0].plan.reset();
  const Json json = Json::parse(summary_json(report_));
  EXPECT_EQ(json["jobs"][0]["reconfigurations"][0]["plan_digest"], "");
  EXPECT_EQ(json["jobs"][0]["reconfigurations"][0]["plan_file"], "");
}

TEST_F(ReportTest, TextsThatAreNotUtf8StillMakeJson) {
  report_.jobs[0].failure = "tensor \xff";
  EXPECT_FALSE(Json::parse(summary_json(report_), nullptr, false).is_discarded());
}

TEST_F(ReportTest, SummariesThatAreNotOursAreRefusedWithTheirPlace) {
  const Json good = Json::parse(summary_json(report_));
  const auto message = [](const std::string& text) { return message_of(read_summary(text).status()); };
  const auto with = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return message(json.dump());
  };
  EXPECT_EQ(message(good.dump()), "");
  EXPECT_THAT(message("{"), HasSubstr("not JSON"));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(message(R"({"schema_version": )" + deep + "}"), HasSubstr("nested more than 64 levels"));
  EXPECT_THAT(message("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(message("{}"), HasSubstr("schema_version"));
  EXPECT_THAT(with("/schema_version", 2), HasSubstr("schema version 2; this program reads version 1"));
  EXPECT_THAT(with("/jobs/0/steps", 1.5), HasSubstr("/jobs/0/steps is not a whole number"));
  EXPECT_THAT(with("/jobs/0/steps", 18446744073709551615U), HasSubstr("/jobs/0/steps is not a whole number"));
  EXPECT_THAT(with("/jobs/1/name", 3), HasSubstr("/jobs/1/name is not a text"));
  EXPECT_THAT(with("/jobs/0/reconfigurations/0/bytes", Json::array()), HasSubstr("bytes is not an object"));
  EXPECT_THAT(with("/jobs", Json::object()), HasSubstr("/jobs is not a list"));
  EXPECT_THAT(with("/seed", -1), HasSubstr("/seed is not a whole number >= 0"));
  Json without = good;
  without["jobs"][0].erase("wall_s");
  EXPECT_THAT(message(without.dump()), HasSubstr("/jobs/0/wall_s is missing"));
}

// ---- expectations ---------------------------------------------------------------------------------------------------
std::string failures(const control::RunReport& report, const scenario::Expectation& expectation,
                     const std::string& strategy = "reshard") {
  scenario::Scenario scenario;
  scenario.expectations = {expectation};
  return failed_expectations(scenario, strategy, summary_json(report));
}

TEST_F(ReportTest, ExpectationsThatHoldSayNothing) {
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/downtime_s", .at_least = 20, .at_most = 20}), "");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/steps", .equals = 100}), "");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/gpu_hours", .equals = 0.1 + 1e-17}), "");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/state", .is = "running"}), "");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/reconfigurations/0/completed", .is = "true"}), "");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/steps", .strategy = "tenplex", .equals = 1}), "")
      << "not this strategy";
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/steps", .equals = 1}, "tenplex"), "") << "the scenario's own only";
}

TEST_F(ReportTest, ExpectationsThatFailSayWhatWasSeen) {
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/downtime_s", .at_most = 19.5}),
            "/jobs/0/downtime_s is 20.0, expected at most 19.5\n");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/steps", .at_least = 101}),
            "/jobs/0/steps is 100, expected at least 101\n");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/steps", .equals = 99}),
            "/jobs/0/steps is 100, expected exactly 99\n");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/state", .is = "complete"}),
            "/jobs/0/state is \"running\", expected \"complete\"\n");
  EXPECT_EQ(failures(report_, {.metric = "/jobs/0/state", .equals = 1}),
            "/jobs/0/state is \"running\", expected a number\n");
  for (const char* nowhere : {"/jobs/2/steps", "/jobs/-/steps", "/jobs/99999999999999999999/steps", "steps",
                              "/jobs/0/~2", "/jobs/0/steps/x", "/Jobs"}) {
    EXPECT_EQ(failures(report_, {.metric = nowhere, .at_least = 0}),
              fmt::format("{} is not in summary.json\n", nowhere));
  }
}

// ---- the folder -----------------------------------------------------------------------------------------------------
std::map<std::string, std::string> files_in(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = *read_file(entry.path().string());
  }
  return files;
}

TEST_F(ReportTest, EqualRunsGiveEqualFilesButTheManifest) {
  const scenario::Scenario scenario = testing::example_scenario();
  ASSERT_TRUE(write_report(report_, {.command_line = "one", .wall_clock_s = 1}, path("a")).ok());
  ASSERT_TRUE(
      write_report(testing::example_report(scenario), {.command_line = "two", .wall_clock_s = 2}, path("b")).ok());
  auto a = files_in(path("a")), b = files_in(path("b"));
  EXPECT_NE(a["manifest.json"], b["manifest.json"]);
  a.erase("manifest.json");
  b.erase("manifest.json");
  EXPECT_EQ(a, b);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : a) names.push_back(name);
  EXPECT_THAT(names,
              ::testing::ElementsAre("devices.csv", "events.csv", "plans/001.binpb", "plans/002.binpb",
                                     "scenario.resolved.textproto", "summary.json", "trace.pftrace", "transfers.csv"));
  EXPECT_EQ(a["plans/002.binpb"], plan::serialize(report_.plans[1]));
  EXPECT_EQ(a["summary.json"], summary_json(report_));
}

TEST_F(ReportTest, AnEarlierReportIsReplacedAndNothingElseTouched) {
  ASSERT_TRUE(write_report(report_, {}, path("out")).ok());
  ASSERT_TRUE(write_file(path("out/plans/notes.binpb"), "mine").ok());
  ASSERT_TRUE(write_file(path("out/notes.txt"), "mine").ok());
  report_.plans.pop_back();
  ASSERT_TRUE(write_report(report_, {}, path("out")).ok());
  const auto files = files_in(path("out"));
  EXPECT_TRUE(files.count("plans/001.binpb"));
  EXPECT_FALSE(files.count("plans/002.binpb"));
  EXPECT_TRUE(files.count("plans/notes.binpb"));
  EXPECT_TRUE(files.count("notes.txt"));
}

TEST_F(ReportTest, AnUnfinishedReportHasNoSummary) {
  ASSERT_TRUE(write_report(report_, {}, path("out")).ok());
  fs::remove(path("out/trace.pftrace"));
  fs::create_directories(path("out/trace.pftrace/in the way"));
  const absl::Status status = write_report(report_, {}, path("out"));
  EXPECT_THAT(message_of(status), HasSubstr("trace.pftrace"));
  EXPECT_FALSE(fs::exists(path("out/summary.json")));
}

TEST_F(ReportTest, AFolderThatCannotBeMadeIsAnError) {
  ASSERT_TRUE(write_file(path("file"), "").ok());
  EXPECT_THAT(message_of(write_report(report_, {}, path("file"))), HasSubstr("file"));
}

TEST_F(ReportTest, ManifestIsJson) {
  const Json json = Json::parse(manifest_json({"scalai-sim run x", "abc", 1.5, "2024-08-17T00:00:00Z"}));
  EXPECT_EQ(json["command_line"], "scalai-sim run x");
  EXPECT_EQ(json["wall_clock_s"], 1.5);
}

// ---- documentation --------------------------------------------------------------------------------------------------
void collect_keys(const Json& json, std::vector<std::string>& keys) {
  if (!json.is_structured()) return;  // a scalar would list itself
  for (const auto& [key, value] : json.items()) {
    if (json.is_object()) keys.push_back(key);
    collect_keys(value, keys);
  }
}

// ---- redundant copies -----------------------------------------------------------------------------------------------
TEST_F(ReportTest, SaysWhatRedundantCopiesSurvive) {
  EXPECT_FALSE(Json::parse(summary_json(report_)).at("jobs")[0].contains("redundancy"));
  report_.jobs[0].redundancy = control::RedundancyRecord{.copies = 2, .made = 7, .survives_host_losses = 1};
  const std::string summary = summary_json(report_);
  const Json json = Json::parse(summary);
  EXPECT_EQ(json.at("jobs")[0].at("redundancy"), Json::parse(R"({"copies": 2, "made": 7, "survives_host_losses": 1})"));
  EXPECT_FALSE(json.at("jobs")[1].contains("redundancy"));
  EXPECT_THAT(summary_table(summary),
              HasSubstr("gpt: redundant copies made 7 times; they survive the loss of any 1 host\n"));
  EXPECT_EQ(read_summary(summary)->jobs[0].redundancy->survives_host_losses, 1);
}

TEST_F(ReportTest, SaysWhatWasLeftOut) {
  EXPECT_FALSE(Json::parse(summary_json(report_)).at("jobs")[0].contains("checkpoints_left_out"));
  report_.jobs[0].checkpoints_left_out = 3;
  report_.jobs[0].redundancy = control::RedundancyRecord{.copies = 2, .made = 7, .left_out = 1};
  const std::string summary = summary_json(report_);
  EXPECT_EQ(Json::parse(summary).at("jobs")[0].at("checkpoints_left_out"), 3);
  EXPECT_EQ(Json::parse(summary).at("jobs")[0].at("redundancy").at("left_out"), 1);
  EXPECT_THAT(summary_table(summary),
              HasSubstr("gpt: 3 checkpoints left out, because the one before was still being written\n"
                        "gpt: redundant copies made 7 times; left out 1 time, because those before were still being "
                        "made\n"));
}

TEST_F(ReportTest, SaysWhenNoRedundantCopyWasMade) {
  report_.jobs[0].redundancy = control::RedundancyRecord{.copies = 2};
  const std::string summary = summary_json(report_);
  EXPECT_TRUE(Json::parse(summary).at("jobs")[0].at("redundancy").at("survives_host_losses").is_null());
  EXPECT_THAT(summary_table(summary), HasSubstr("gpt: redundant copies made 0 times\n"));
}

// ---- datasets -------------------------------------------------------------------------------------------------------
class DatasetReport : public ReportTest {
 protected:
  DatasetReport() {
    scenario_.jobs[0].dataset = scenario::DatasetSpec{.state = {.samples = 500, .seed = 9, .global_batch = 32}};
    report_.jobs[0].dataset = control::DatasetRecord{.samples = 500,
                                                     .pass = 6,
                                                     .consumed = 200,
                                                     .samples_read = 3296,
                                                     .bytes_read = 5000,
                                                     .steps_again = 3,
                                                     .samples_again = 96,
                                                     .exactly_once = true};
  }
};

TEST_F(DatasetReport, IsInTheSummaryOfAJobThatHasOne) {
  const Json json = Json::parse(summary_json(report_));
  EXPECT_EQ(json.at("jobs")[0].at("dataset"),
            Json::parse(R"({"index": "", "samples": 500, "sequence": 0, "seed": 9, "shuffle": true, "drop_last": false,
                            "pass": 6, "consumed": 200, "samples_read": 3296, "bytes_read": 5000,
                            "steps_read_again": 3, "samples_read_again": 96, "exactly_once": true})"));
  EXPECT_FALSE(json.at("jobs")[1].contains("dataset"));
  EXPECT_THAT(
      summary_table(summary_json(report_)),
      HasSubstr("gpt: dataset of 500 samples, at 200 of pass 6; 3296 samples read (5.00 kB); 3 steps (96 samples) "
                "read again after rollbacks; exactly once\n"));
}

TEST_F(DatasetReport, SaysWhatIsNotProved) {
  report_.jobs[0].dataset->exactly_once.reset();
  report_.jobs[0].dataset->samples_assumed = 64;
  const std::string summary = summary_json(report_);
  const Json dataset = Json::parse(summary).at("jobs")[0].at("dataset");
  EXPECT_EQ(dataset.at("samples_not_proved"), 64);
  EXPECT_TRUE(dataset.at("exactly_once").is_null());
  const std::string table = summary_table(summary);
  EXPECT_THAT(table, HasSubstr("; not proved: the training program told no ids of 64 samples\n"));
  EXPECT_THAT(table, Not(HasSubstr("exactly once")));
}

TEST_F(DatasetReport, SaysWhenNothingWasRead) {
  report_.jobs[0].dataset = control::DatasetRecord{.samples = 500, .pass = 6, .consumed = 200};
  const std::string summary = summary_json(report_);
  const Json json = Json::parse(summary);
  EXPECT_TRUE(json.at("jobs")[0].at("dataset").at("samples_read").is_null());
  EXPECT_TRUE(json.at("jobs")[0].at("dataset").at("exactly_once").is_null());
  EXPECT_THAT(summary_table(summary), HasSubstr("pass 6; nothing was read in this run\n"));
}

TEST_F(DatasetReport, SaysWhenItIsNotExactlyOnce) {
  report_.jobs[0].dataset->exactly_once = false;
  EXPECT_THAT(summary_table(summary_json(report_)), HasSubstr("; NOT exactly once\n"));
}

TEST_F(DatasetReport, DocsNameEveryColumnAndKey) {
  const auto readme = read_file(std::string(SCALAI_SOURCE_DIR) + "/docs/reports.md");
  ASSERT_TRUE(readme.ok()) << readme.status();
  std::vector<std::string> names;
  for (const std::string& csv : {control::events_csv(report_.events), transfers_csv(report_), devices_csv(report_)}) {
    std::string name;
    for (const char c : csv.substr(0, csv.find('\n')) + ",") {
      if (c == ',')
        names.push_back(std::exchange(name, ""));
      else
        name += c;
    }
  }
  collect_keys(Json::parse(summary_json(report_)), names);
  collect_keys(Json::parse(manifest_json({})), names);
  EXPECT_GT(names.size(), 80U);
  for (const std::string& name : names) EXPECT_THAT(*readme, HasSubstr("`" + name + "`"));
}

}  // namespace report_test
}  // namespace scalai::report
