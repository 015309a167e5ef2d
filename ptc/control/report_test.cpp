#include "ptc/control/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "ptc/base/file.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/base/version.h"
#include "ptc/control/internal/example_report.h"
#include "ptc/control/internal/report_files.h"
#include "ptc/control/internal/summary.h"
#include "ptc/plan/plan_io.h"

namespace scalai::control {
namespace report_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

class ReportTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_ = fs::path(::testing::TempDir()) / fmt::format("report_test.{}", ::getpid());
  Scenario scenario_ = testing::example_scenario();
  RunReport report_ = testing::example_report(scenario_);
};

// ---- events.csv -----------------------------------------------------------------------------------------------------
double random_double(Random& random) {
  while (true) {
    const auto value = std::bit_cast<double>(random.next());
    if (std::isfinite(value)) return value;
  }
}

std::vector<DeviceId> random_devices(Random& random) {
  std::vector<DeviceId> devices;
  for (int64_t n = random.below(5); n > 0; --n) devices.emplace_back(random.below(1 << 20));
  return devices;
}

PhaseSeconds random_phases(Random& random) {
  PhaseSeconds phases;
  for (double* seconds : {&phases.detect, &phases.stop, &phases.plan, &phases.restart, &phases.prepare,
                          &phases.transfer, &phases.verify, &phases.resume, &phases.aborted}) {
    *seconds = random_double(random);
  }
  return phases;
}

SamplesRead random_reading(Random& random) {
  SamplesRead read{.job = static_cast<int>(random.below(1000)),
                   .from_step = static_cast<int64_t>(random.next()),
                   .step = static_cast<int64_t>(random.next()),
                   .bytes = static_cast<int64_t>(random.next())};
  for (int64_t n = random.below(5); n > 0; --n) {
    data::SampleAccount& account = read.accounts.emplace_back();
    account.samples = static_cast<int64_t>(random.next());
    account.sum_low = random.next() >> random.below(64);
    account.sum_high = random.next() >> random.below(64);
  }
  return read;
}

EventBody random_body(Random& random) {
  const auto small = [&] { return static_cast<int>(random.below(1000)); };
  const auto any = [&] { return static_cast<int64_t>(random.next()); };
  switch (random.below(11)) {
    case 0: return Started{};
    case 1: return StepReached{small(), any()};
    case 2: return RoundDone{small(), small()};
    case 3: return ExecutionDone{small(), random_phases(random)};
    case 4: return BackgroundDone{small(), any()};
    case 5: return TimerFired{any()};
    case 6: return DevicesLost{random_devices(random), random_double(random)};
    case 7: return UserDrain{random_devices(random)};
    case 8: return UserStop{};
    case 9: return random_reading(random);
    default: return UserResize{small(), small()};
  }
}

bool same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

bool same(const PhaseSeconds& a, const PhaseSeconds& b) {
  return same(a.detect, b.detect) && same(a.stop, b.stop) && same(a.plan, b.plan) && same(a.restart, b.restart) &&
         same(a.prepare, b.prepare) && same(a.transfer, b.transfer) && same(a.verify, b.verify) &&
         same(a.resume, b.resume) && same(a.aborted, b.aborted);
}

struct SameBody {
  bool operator()(const Started&, const Started&) const { return true; }
  bool operator()(const StepReached& a, const StepReached& b) const { return a.job == b.job && a.step == b.step; }
  bool operator()(const RoundDone& a, const RoundDone& b) const { return a.job == b.job && a.round == b.round; }
  bool operator()(const ExecutionDone& a, const ExecutionDone& b) const {
    return a.job == b.job && same(a.phases, b.phases);
  }
  bool operator()(const BackgroundDone& a, const BackgroundDone& b) const { return a.job == b.job && a.tag == b.tag; }
  bool operator()(const TimerFired& a, const TimerFired& b) const { return a.timer == b.timer; }
  bool operator()(const DevicesLost& a, const DevicesLost& b) const {
    return a.devices == b.devices && same(a.failed_at_s, b.failed_at_s);
  }
  bool operator()(const UserResize& a, const UserResize& b) const { return a.job == b.job && a.gpus == b.gpus; }
  bool operator()(const UserDrain& a, const UserDrain& b) const { return a.devices == b.devices; }
  bool operator()(const UserStop&, const UserStop&) const { return true; }
  bool operator()(const SamplesRead& a, const SamplesRead& b) const {
    return a.job == b.job && a.from_step == b.from_step && a.step == b.step && a.accounts == b.accounts &&
           a.bytes == b.bytes;
  }
  template <class A, class B>
  bool operator()(const A&, const B&) const {
    return false;
  }
};

TEST_F(ReportTest, EventsRoundTripExactly) {
  constexpr uint64_t kSeed = 20240817;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    report_.events.clear();
    for (int64_t n = random.below(20); n > 0; --n) {
      report_.events.push_back({random_double(random), random_body(random)});
    }
    const std::string csv = events_csv(report_);
    const auto parsed = parse_events(csv);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << csv;
    ASSERT_EQ(parsed->size(), report_.events.size());
    for (size_t i = 0; i < parsed->size(); ++i) {
      EXPECT_TRUE(same((*parsed)[i].at_s, report_.events[i].at_s)) << csv;
      EXPECT_TRUE(std::visit(SameBody{}, (*parsed)[i].body, report_.events[i].body)) << "event " << i << " of\n" << csv;
    }
    report_.events = *parsed;
    EXPECT_EQ(events_csv(report_), csv);
  }
}

TEST_F(ReportTest, EventsThatAreNotOursAreRefusedWithTheirPlace) {
  const std::string good = events_csv(report_);
  const auto message = [](const std::string& csv) { return message_of(parse_events(csv).status()); };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string csv = good;
    const size_t at = csv.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return csv.replace(at, from.size(), to);
  };
  EXPECT_THAT(message(""), HasSubstr("columns"));
  EXPECT_THAT(message(good.substr(0, good.size() - 3)), HasSubstr("cut off"));
  EXPECT_THAT(message(with("at_s", "at")), HasSubstr("columns"));
  EXPECT_THAT(message(with("step_reached", "step_leapt")), HasSubstr("line 3, column event: \"step_leapt\""));
  EXPECT_THAT(message(with("10,step_reached", "10,started")), HasSubstr("line 3, column job: \"0\" has no meaning"));
  EXPECT_THAT(message(with("10,step_reached", "soon,step_reached")), HasSubstr("column at_s: \"soon\""));
  EXPECT_THAT(message(with("10,step_reached", "inf,step_reached")), HasSubstr("column at_s: \"inf\""));
  EXPECT_THAT(message(with("g2 g3", "g2 h3")), HasSubstr("line 5, column devices: \"g2 h3\""));
  EXPECT_THAT(message(with("g2 g3", "g2,g3")), HasSubstr("cells"));
  EXPECT_THAT(message(with("step_reached,0", "step_reached,99999999999")), HasSubstr("column job"));
}

TEST_F(ReportTest, AccountsThatAreNotOursAreRefused) {
  const data::SampleAccount one{.samples = 3, .sum_low = 4, .sum_high = 5};
  report_.events = {{1, SamplesRead{.job = 0, .from_step = 2, .step = 6, .accounts = {one, one}, .bytes = 7}}};
  const std::string good = events_csv(report_);
  const std::string sum = "00000000000000050000000000000004";
  EXPECT_THAT(good, HasSubstr(",2,3 3," + sum + " " + sum + ",7,\n"));
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string csv = good;
    EXPECT_FALSE(parse_events(csv.replace(csv.rfind(from), from.size(), to)).ok()) << csv;
  };
  refused(sum, sum + " " + sum);
  refused(" " + sum, "");
  refused(sum, sum.substr(1));
  refused(sum, "g" + sum.substr(1));
  refused("3 3", "3 x");
}

// Logs from before jobs had datasets, and from before there were policies.
TEST_F(ReportTest, EventsOfEarlierVersionsAreRead) {
  for (const auto& [columns, last] : {std::pair(5, "aborted_s\n"), std::pair(1, "bytes\n")}) {
    std::string old;
    std::istringstream lines(events_csv(report_));
    for (std::string line; std::getline(lines, line);) {
      for (int column = 0; column < columns; ++column) line.resize(line.rfind(','));
      old += line + "\n";
    }
    EXPECT_THAT(old, HasSubstr(last));
    EXPECT_EQ(parse_events(old).value_or(std::vector<Event>()).size(), report_.events.size());
  }
}

// A damaged log is refused or read, never a crash or a hang.
TEST_F(ReportTest, DamagedEventsNeverCrash) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  const std::string good = events_csv(report_);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string csv = good;
    csv[static_cast<size_t>(random.below(static_cast<int64_t>(csv.size())))] = static_cast<char>(random.below(256));
    refused += parse_events(csv).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 1000);
}

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
  EXPECT_EQ(first["plan_digest"], "aa");
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
  report_.jobs[0].reconfigurations[0].plan = nullptr;
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
  EXPECT_THAT(message("{"), HasSubstr("no JSON object"));
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
std::string failures(const RunReport& report, const Expectation& expectation, const std::string& strategy = "reshard") {
  Scenario scenario;
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
  const Scenario scenario = testing::example_scenario();
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
  EXPECT_EQ(a["plans/002.binpb"], plan::serialize(*report_.plans[1]));
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

// ---- datasets -------------------------------------------------------------------------------------------------------
class DatasetReport : public ReportTest {
 protected:
  DatasetReport() {
    scenario_.jobs[0].dataset = DatasetSpec{.state = {.samples = 500, .seed = 9, .global_batch = 32}};
    report_.jobs[0].dataset = DatasetRecord{.samples = 500,
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

TEST_F(DatasetReport, SaysWhenNothingWasRead) {
  report_.jobs[0].dataset = DatasetRecord{.samples = 500, .pass = 6, .consumed = 200};
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

TEST_F(DatasetReport, ReadmeNamesEveryColumnAndKey) {
  const auto readme = read_file(std::string(SCALAI_SOURCE_DIR) + "/ptc/control/README.md");
  ASSERT_TRUE(readme.ok()) << readme.status();
  std::vector<std::string> names;
  for (const std::string& csv : {events_csv(report_), transfers_csv(report_), devices_csv(report_)}) {
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
}  // namespace scalai::control
