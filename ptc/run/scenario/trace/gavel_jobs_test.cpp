#include "ptc/run/policy/testing/support.h"
#include "ptc/run/scenario/trace/gavel_table.h"
#include "ptc/run/scenario/trace/testing/test_files.h"

namespace scalai::trace {
namespace {

using policy::testing::data_hint;
using policy::testing::data_path;
using testing::has;

using GavelJobs = testing::TraceFiles;

const std::string kNew = "LM (batch size 20)\tpython3 x\tlm\t--steps\t1\t6000\t2\t5\t2.0\t";
const std::string kOld = "A3C\tpython3 x\t-step\t1\t300\t";

constexpr const char* kTable = R"j({
  "v100": {"('LM (batch size 20)', 2)": {"null": 3.0, "('A3C', 1)": [1.0, 2.0], "('LM (batch size 20)', 2)": [0.0, 0.0]},
           "('A3C', 1)": {"null": 2.0}},
  "v100_unconsolidated": {"('LM (batch size 20)', 2)": {"null": 1.5}}})j";

TEST_F(GavelJobs, TenFieldsAndTheOldSeven) {
  const Imported got = good("gavel", kNew + "120.5\n" + kOld + "60\t1\n");
  ASSERT_EQ(got.workload.jobs.size(), 2U);
  const policy::Job& old = got.workload.jobs[0];
  EXPECT_EQ(old.name, "job-1");  // numbered by row, sorted by arrival
  EXPECT_EQ(old.submit_s, 60);   // the trace's own clock
  EXPECT_EQ(old.type, "A3C");
  EXPECT_EQ(old.batch, 0);
  EXPECT_EQ(old.work, 300);
  const policy::Job& job = got.workload.jobs[1];
  EXPECT_EQ(job.type, "LM (batch size 20)");
  EXPECT_EQ(job.batch, 20);
  EXPECT_EQ(job.gpus, 2);
  EXPECT_EQ(job.min_gpus, 2);
  EXPECT_EQ(job.work, 6000);
  EXPECT_EQ(job.weight, 5);
  EXPECT_EQ(job.duration_s, -1);
  EXPECT_EQ(job.deadline_s, policy::kNever);
  EXPECT_EQ(got.summary.sizes, (std::map<int, int64_t>{{1, 1}, {2, 1}}));
  ASSERT_EQ(got.summary.notes.size(), 2U);
  EXPECT_TRUE(has(got.summary.notes[0], "1 rows of the old form"));
  EXPECT_TRUE(has(got.summary.notes[1], "1 jobs have an SLO ratio"));
}

TEST_F(GavelJobs, DeadlinesCountInRunTimesOnTheReference) {
  const std::string table = file(kTable, "table.json");
  const Imported got = good("gavel", kNew + "100\n" + kOld + "60\t1\n", {"throughputs=" + table});
  EXPECT_EQ(got.workload.jobs[1].duration_s, 2000);
  EXPECT_EQ(got.workload.jobs[1].deadline_s, 4100);
  EXPECT_EQ(got.workload.jobs[0].duration_s, 150);
  EXPECT_TRUE(has(bad("gavel", kNew + "100\n", {"throughputs=" + table, "reference=h100"}), "no worker type \"h100\""));
  std::string eight = kNew + "100\n";
  eight.replace(eight.find("\t2\t5"), 2, "\t8");
  EXPECT_TRUE(
      has(bad("gavel", eight, {"throughputs=" + table}), "trace.csv:1: SLO: no rate of \"LM (batch size 20)\""));
}

TEST_F(GavelJobs, BadRowsAreNamed) {
  const std::string message = bad("gavel", kNew + "x\n" + kOld + "60\t0\na\tb\n" + kOld + "-1e99\t1\n");
  for (const char* part : {"trace.csv:1: arrival_time: \"x\" is not a number", "trace.csv:2: scale_factor: \"0\"",
                           "trace.csv:3: has 2 tab-separated fields",
                           "trace.csv:4: arrival_time: \"-1e99\" is not within", "4 problems"}) {
    EXPECT_TRUE(has(message, part)) << part << "\n" << message;
  }
  EXPECT_TRUE(has(bad("gavel", ""), "no job is left of 0 rows"));
}

TEST_F(GavelJobs, TableOfRates) {
  const absl::StatusOr<GavelTable> table = read_gavel_table(file(kTable, "table.json"));
  ASSERT_TRUE(table.ok()) << message_of(table.status());
  const GavelRates& rates = table->at("v100").at({"LM (batch size 20)", 2});
  EXPECT_EQ(rates.alone, 3);
  EXPECT_EQ(rates.beside.at({"A3C", 1}), (std::pair<double, double>(1, 2)));
  EXPECT_EQ(table->at("v100_unconsolidated").size(), 1U);
}

TEST_F(GavelJobs, DeepTablesAreRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const std::string table = R"j({"v100": {"('A3C', 1)": {"null": )j" + deep + "}}}";
  EXPECT_TRUE(has(message_of(read_gavel_table(file(table, "t.json")).status()), "t.json:1:95: nested more than"));
}

TEST_F(GavelJobs, BadTables) {
  const auto problems = [&](const std::string& text) {
    return message_of(read_gavel_table(file(text, "t.json")).status());
  };
  EXPECT_TRUE(has(problems("{"), "t.json:1:2: this is not JSON"));
  EXPECT_TRUE(has(problems("[]"), "no Gavel throughput table"));
  EXPECT_TRUE(has(problems(R"({"v100": 3})"), "/v100: is not an object"));
  EXPECT_TRUE(has(problems(R"({"v100": {"A3C": {"null": 1}}})"), "/v100/A3C: is no job key"));
  EXPECT_TRUE(has(problems(R"j({"v100": {"('A3C', 0)": {"null": 1}}})j"), "is no job key"));
  EXPECT_TRUE(has(problems(R"j({"v100": {"('A3C', 1)": {}}})j"), "null: the rate of the job alone is missing"));
  EXPECT_TRUE(has(problems(R"j({"v100": {"('A3C', 1)": {"null": -1}}})j"), "\"-1\" is no rate"));
  EXPECT_TRUE(has(problems(R"j({"v100": {"('A3C', 1)": {"null": 1, "('A3C', 1)": [1]}}})j"), "is no pair of rates"));
}

TEST(GavelPublic, TracesAsTheirSourceSays) {
  const std::string folder = policy::testing::data_path("gavel/traces");
  if (folder.empty()) GTEST_SKIP() << policy::testing::data_hint("gavel/traces");
  const auto fair = import_trace("gavel", folder + "/physical_max_min_fairness.trace");
  ASSERT_TRUE(fair.ok()) << message_of(fair.status());
  EXPECT_EQ(fair->workload.jobs.size(), 96U);
  EXPECT_EQ(fair->summary.span_s, 46317);
  EXPECT_EQ(fair->summary.checksum, "0b53fbd8288be14300a161a5b540eb12");
  const auto makespan = import_trace("gavel", folder + "/physical_minimize_makespan.trace");
  ASSERT_TRUE(makespan.ok());
  EXPECT_EQ(makespan->workload.jobs.size(), 100U);
  EXPECT_EQ(makespan->summary.span_s, 0);
  const auto old = import_trace("gavel", folder + "/philly_vc_e13805_seed0.trace");
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->workload.jobs.size(), 607U);
}

TEST(GavelPublic, ThroughputTableAsItsSourceSays) {
  const std::string path = policy::testing::data_path("gavel/simulation_throughputs.json");
  if (path.empty()) GTEST_SKIP() << policy::testing::data_hint("gavel");
  const absl::StatusOr<GavelTable> table = read_gavel_table(path);
  ASSERT_TRUE(table.ok()) << message_of(table.status());
  EXPECT_EQ(table->size(), 6U);
  EXPECT_EQ(table->at("v100").size(), 83U);
  EXPECT_EQ(table->at("k80_unconsolidated").size(), 77U);
  EXPECT_EQ(table->at("k80").at({"ResNet-50 (batch size 128)", 2}).alone, 0);
}

}  // namespace
}  // namespace scalai::trace
