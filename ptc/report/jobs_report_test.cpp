#include "ptc/report/jobs_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace scalai::report {
namespace jobs_report_test {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// Three jobs on four GPUs of two types: one done in time, one too late, one refused.
struct Example {
  Example() {
    fleet.types = {{"v100", 2}, {"k80", 0.5}};
    fleet.hosts = {{policy::GpuType(0), 2}, {policy::GpuType(1), 2}};
    for (int j = 0; j < 3; ++j) {
      policy::Job job;
      job.name = std::string(1, static_cast<char>('a' + j));
      job.type = "bert";
      job.submit_s = 100.0 * j;
      job.gpus = 2;
      job.work = 1000;
      job.deadline_s = 2000;
      workload.jobs.push_back(job);
      policy::JobRecord record;
      record.job = policy::JobId(j);
      outcome.jobs.push_back(record);
    }
    finish(0, 10, 1000, 500);
    finish(1, 300, 2300, 1100);
    outcome.jobs[1].restarts = 2;
    outcome.jobs[1].cost = 1.5;
    outcome.jobs[1].queue_free_gpu_s = 40;
    outcome.jobs[1].queue_unusable_gpu_s = 20;
    outcome.jobs[2].end = policy::JobEnd::kRefused;
    outcome.up_gpu_s = 8000;
    outcome.training_gpu_s = 6000;
    outcome.changing_gpu_s = 360;
    outcome.lost_gpu_s = 720;
    outcome.cost = 3;
    outcome.end_s = 2300;
    outcome.use = {{0, 4, 2, 0, 1, 0, 2, 1}, {1000, 4, 0, 2, 1, 1}};
    outcome.free = {.gpu_s = 7200, .scattered_gpu_s = 3600, .unusable_gpu_s = 1800};
  }
  void finish(size_t job, double start_s, double finish_s, double isolated_s) {
    policy::JobRecord& record = outcome.jobs[job];
    record.end = policy::JobEnd::kFinished;
    record.first_start_s = start_s;
    record.finish_s = finish_s;
    record.isolated_s = isolated_s;
    record.attained_gpu_s = 2 * (finish_s - start_s);
  }
  policy::Workload workload;
  policy::Fleet fleet;
  policy::Outcome outcome;
};

std::optional<double> value_of(const std::vector<Metric>& metrics, const std::string& name) {
  for (const Metric& metric : metrics) {
    if (metric.name == name) return metric.value;
  }
  ADD_FAILURE() << name;
  return std::nullopt;
}

TEST(Report, MetricsByHand) {
  const Example example;
  const auto metrics = metrics_of(example.workload, example.outcome);
  EXPECT_EQ(value_of(metrics, "jobs"), 3);
  EXPECT_EQ(value_of(metrics, "finished"), 2);
  EXPECT_EQ(value_of(metrics, "refused"), 1);
  EXPECT_EQ(value_of(metrics, "avg_jct_s"), (1000 + 2200) / 2.0);
  EXPECT_EQ(value_of(metrics, "median_jct_s"), 1600);
  EXPECT_DOUBLE_EQ(*value_of(metrics, "p90_jct_s"), 1000 + 0.9 * 1200);
  EXPECT_EQ(value_of(metrics, "avg_queueing_s"), (10 + 200) / 2.0);
  EXPECT_EQ(value_of(metrics, "makespan_s"), 2300);
  EXPECT_EQ(value_of(metrics, "avg_ftf"), (1000 / 500.0 + 2200 / 1100.0) / 2);
  EXPECT_EQ(value_of(metrics, "worst_ftf"), 2);
  EXPECT_EQ(value_of(metrics, "utilization"), 0.75);
  EXPECT_EQ(value_of(metrics, "restarts"), 2);
  EXPECT_EQ(value_of(metrics, "reconfiguration_gpu_h"), 0.1);
  EXPECT_EQ(value_of(metrics, "rerun_gpu_h"), 0.2);
  EXPECT_EQ(value_of(metrics, "free_gpu_h"), 2);
  EXPECT_EQ(value_of(metrics, "scattered"), 0.5);
  EXPECT_EQ(value_of(metrics, "fragmentation"), 0.25);
  EXPECT_EQ(value_of(metrics, "with_deadline"), 3);
  EXPECT_EQ(value_of(metrics, "deadlines_met"), 1) << "one was late, a refused job has met none";
  EXPECT_EQ(value_of(metrics, "cost_usd"), 3);
  EXPECT_EQ(value_of(metrics, "jobs_cost_usd"), 1.5);
}

TEST(Report, ColumnsThatOnlySomeRunsHave) {
  const Example example;
  EXPECT_TRUE(jobs_csv_header({"in_window", "estimate"}).ends_with(",queue_unusable_gpu_s,in_window,estimate\n"));
  EXPECT_TRUE(jobs_csv_header().ends_with(",cost_usd,queue_free_gpu_s,queue_unusable_gpu_s\n"));
  const std::string line = jobs_csv_line(example.workload.jobs[1], example.outcome.jobs[1], {"1", "0.5"});
  EXPECT_TRUE(line.ends_with(",1.5,40,20,1,0.5\n")) << line;
  const std::string without = jobs_csv_line(example.workload.jobs[2], example.outcome.jobs[2]);
  EXPECT_TRUE(without.ends_with(",0,,\n")) << without;
}

TEST(Report, WhatOnlySomeSummariesHave) {
  const Example example;
  const SummaryExtras extras{
      .virtual_clusters = {{.entity = "a", .quota_gpus = 4, .jobs = 2, .avg_jct_s = 7, .gpu_h = 3}},
      .metrics = {{"late", "late", "", 0.5}, {"none", "none", "", std::nullopt}}};
  const Json json = Json::parse(summary_json({}, example.workload, example.fleet, example.outcome, "", extras));
  EXPECT_EQ(json.at("metrics").at("late"), 0.5);
  EXPECT_TRUE(json.at("metrics").at("none").is_null());
  EXPECT_EQ(json.at("/virtual_clusters/0/name"_json_pointer), "a");
  EXPECT_EQ(json.at("/virtual_clusters/0/quota_gpus"_json_pointer), 4);
  EXPECT_EQ(json.at("/virtual_clusters/0/avg_jct_s"_json_pointer), 7);
  EXPECT_TRUE(json.at("/virtual_clusters/0/avg_ftf"_json_pointer).is_null());
  const Json plain = Json::parse(summary_json({}, example.workload, example.fleet, example.outcome));
  EXPECT_FALSE(plain.contains("virtual_clusters"));
}

TEST(Report, EstimatesAreNamed) {
  const Example example;
  ReportHead head{.estimates = "run times off"};
  EXPECT_EQ(Json::parse(summary_json(head, example.workload, example.fleet, example.outcome)).at("estimates"),
            "run times off");
  EXPECT_THAT(metrics_table(head, {}, "table"), HasSubstr("\n  estimates: run times off\n"));
  head.estimates.clear();
  EXPECT_FALSE(Json::parse(summary_json(head, example.workload, example.fleet, example.outcome)).contains("estimates"));
}

// Of the three jobs the last two: one finished after 2,200 s, one was refused.
TEST(Report, MetricsOfAWindow) {
  Example example;
  example.outcome.window = policy::Window{.from_job = 1, .to_job = 3, .from_s = 100, .to_s = 2300};
  const auto metrics = metrics_of(example.workload, example.outcome);
  EXPECT_EQ(value_of(metrics, "jobs"), 2);
  EXPECT_EQ(value_of(metrics, "finished"), 1);
  EXPECT_EQ(value_of(metrics, "refused"), 1);
  EXPECT_EQ(value_of(metrics, "avg_jct_s"), 2200);
  EXPECT_EQ(value_of(metrics, "avg_queueing_s"), 200);
  EXPECT_EQ(value_of(metrics, "makespan_s"), 2200);
  EXPECT_EQ(value_of(metrics, "restarts"), 2);
  EXPECT_EQ(value_of(metrics, "with_deadline"), 2);
  EXPECT_EQ(jct_cdf_csv(example.workload, example.outcome), "jct_s,share\n2200,1\n");
  const Json json = Json::parse(summary_json({}, example.workload, example.fleet, example.outcome));
  EXPECT_EQ(json.at("window").dump(),
            R"({"from_job":1,"from_s":100.0,"jobs":2,"run_on":false,"to_job":3,"to_s":2300.0})");
  const auto notes = window_notes(example.workload, example.outcome);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_THAT(notes[0], HasSubstr("jobs 1 to 2 by submission (2 jobs)"));
  EXPECT_THAT(notes[0], HasSubstr("; the run ends with it"));
  EXPECT_THAT(notes[1], HasSubstr("the cluster empties"));
  example.outcome.end_s = 9000;  // one of its jobs ran on
  EXPECT_THAT(window_notes(example.workload, example.outcome)[0],
              HasSubstr("; the run ends at 2 h 30 min, with the last of these jobs"));
  example.outcome.end_s = 2300;
  example.workload.jobs.back().submit_s = 2300;
  EXPECT_EQ(window_notes(example.workload, example.outcome).size(), 1u) << "jobs come until it ends";
  example.outcome.window.reset();
  EXPECT_TRUE(window_notes(example.workload, example.outcome).empty());
  EXPECT_FALSE(Json::parse(summary_json({}, example.workload, example.fleet, example.outcome)).contains("window"));
}

TEST(Report, NothingIsNotZero) {
  const auto metrics = metrics_of(policy::Workload{}, policy::Outcome{});
  for (const char* name : {"avg_jct_s", "makespan_s", "worst_ftf", "utilization", "deadlines_share", "cost_usd",
                           "free_gpu_h", "scattered", "fragmentation"}) {
    EXPECT_EQ(value_of(metrics, name), std::nullopt) << name;
  }
}

TEST(Report, AMetricOfTheUserIsThereEvenWithoutAValue) {
  const std::string text =
      metrics_table({}, {{"late", "late", "", {}, true}, {"avg_ftf", "fairness", "", {}}}, "table");
  EXPECT_THAT(text, HasSubstr("\nlate  –\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("fairness")));
}

TEST(Report, SummaryIsDeterministicJson) {
  const Example example;
  ReportHead head{
      .scenario = "s", .digest = "d", .seed = 18446744073709551615u, .policy = "srtf", .policy_set = {"a=1"}};
  const std::string text = summary_json(head, example.workload, example.fleet, example.outcome);
  EXPECT_EQ(text, summary_json(head, example.workload, example.fleet, example.outcome));
  const Json json = Json::parse(text);
  EXPECT_EQ(json.at("kind"), "cluster");
  EXPECT_EQ(json.at("seed"), 18446744073709551615u);
  EXPECT_EQ(json.at("metrics").at("avg_jct_s"), 1600.0);
  EXPECT_EQ(json.at("fleet").at("types")[1].at("gpus"), 2);
  EXPECT_FALSE(json.contains("error"));
}

// Zeros that nobody has measured are no results.
TEST(Report, ARunCutShortSaysOnlyWhatIsKnown) {
  const Example example;
  policy::Outcome partial;
  partial.jobs = example.outcome.jobs;
  partial.jobs[1] = policy::JobRecord{};  // had not ended
  const Json json = Json::parse(summary_json(ReportHead{}, example.workload, example.fleet, partial, "oh"));
  EXPECT_EQ(json.at("error"), "oh");
  EXPECT_EQ(json.at("metrics").at("finished"), 1);
  EXPECT_EQ(json.at("metrics").at("unfinished"), 1);
  EXPECT_EQ(json.at("metrics").at("avg_jct_s"), 1000.0);
  for (const char* unknown :
       {"gpu_h", "restarts", "losses", "cost_usd", "utilization", "makespan_s", "with_deadline"}) {
    EXPECT_FALSE(json.at("metrics").contains(unknown)) << unknown;
  }
  for (const char* unknown : {"end_s", "counts", "policy_remarks"}) EXPECT_FALSE(json.contains(unknown)) << unknown;
}

TEST(Report, JobsLineByLine) {
  const Example example;
  const auto columns = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  EXPECT_EQ(columns(jobs_csv_line(example.workload.jobs[0], example.outcome.jobs[0])), columns(jobs_csv_header()));
  const std::string line = jobs_csv_line(example.workload.jobs[1], example.outcome.jobs[1]);
  EXPECT_THAT(line, HasSubstr("b,bert,,2,100,finished,300,2300,2200,200,0,1100,2,2000,"));
  EXPECT_EQ(line.back(), '\n');
  const std::string refused = jobs_csv_line(example.workload.jobs[2], example.outcome.jobs[2]);
  EXPECT_THAT(refused, HasSubstr("refused,,,,,")) << "never is empty";
  EXPECT_THAT(refused, Not(HasSubstr("inf")));
}

TEST(Report, DistributionsEndAtOne) {
  const Example example;
  EXPECT_EQ(jct_cdf_csv(example.workload, example.outcome), "jct_s,share\n1000,0.5\n2200,1\n");
  EXPECT_EQ(ftf_cdf_csv(example.workload, example.outcome), "ftf,share\n2,0.5\n2,1\n");
  EXPECT_EQ(utilization_csv(example.outcome),
            "at_s,up_gpus,training_gpus,changing_gpus,running_jobs,waiting_jobs,free_gpus,scattered_gpus,for_s\n"
            "0,4,2,0,1,0,2,1,1000\n1000,4,0,2,1,1,,,1300\n");
}

TEST(Report, LongDistributionsAreThinned) {
  Example example;
  example.workload.jobs.clear();
  example.outcome.jobs.clear();
  for (int j = 0; j < 5000; ++j) {
    policy::Job job;
    job.name = "j";
    example.workload.jobs.push_back(job);
    example.outcome.jobs.emplace_back();
    example.finish(static_cast<size_t>(j), 0, 5000 - j, 1);
  }
  const std::string csv = jct_cdf_csv(example.workload, example.outcome);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1001);
  EXPECT_THAT(csv, HasSubstr("jct_s,share\n5,0.001\n"));
  EXPECT_THAT(csv, ::testing::EndsWith("\n5000,1\n"));
}

TEST(Report, TheLedgerFollowsHostsAndPrices) {
  const Example example;
  policy::Availability availability;
  using Kind = policy::FleetEvent::Kind;
  availability.events = {{.at_s = 1800, .kind = Kind::kFailed, .hosts = {HostId(0)}},
                         {.at_s = 3600, .kind = Kind::kUp, .hosts = {HostId(0)}},
                         {.at_s = 5400, .kind = Kind::kPrice, .type = policy::GpuType(0), .price = 4},
                         {.at_s = 9000, .kind = Kind::kPrice, .type = policy::GpuType(0), .price = 1000}};
  const auto costs = type_costs(example.fleet, availability, 7200);
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_DOUBLE_EQ(costs[0].up_gpu_h, 2 * 1.5);
  EXPECT_DOUBLE_EQ(costs[0].usd, 2 * (0.5 * 2 + 0.5 * 2 + 0.5 * 4));
  EXPECT_DOUBLE_EQ(costs[1].up_gpu_h, 4);
  EXPECT_DOUBLE_EQ(costs[1].usd, 2);
  availability.up = {0, 1};
  EXPECT_DOUBLE_EQ(type_costs(example.fleet, availability, 7200)[0].up_gpu_h, 2) << "up from 3600 s on";
  const std::string csv = costs_csv(example.workload, example.fleet, policy::Availability{}, example.outcome);
  EXPECT_THAT(csv, HasSubstr("kind,name,gpu_h,cost_usd\ntype,v100,"));
  EXPECT_THAT(csv, HasSubstr("job,b,"));
  EXPECT_THAT(csv, Not(HasSubstr("job,a,"))) << "it cost nothing";
}

TEST(Report, TheTableShowsWhatThereIs) {
  const Example example;
  const ReportHead head{.scenario = "s", .workload = "w", .policy = "srtf"};
  const auto metrics = metrics_of(example.workload, example.outcome);
  const std::string table = metrics_table(head, metrics, "table");
  EXPECT_THAT(table, HasSubstr("s: w · policy srtf · seed 0\n"));
  EXPECT_THAT(table, HasSubstr("JCT, mean"));
  EXPECT_THAT(table, HasSubstr("75.0 %"));
  EXPECT_THAT(metrics_table(head, metrics, "csv"), HasSubstr("\navg_jct_s,1600,s\n"));
}

TEST(Report, RecoveryRuns) {
  policy::RecoveryResult result;
  result.from_s = 100;
  result.to_s = 3700;
  result.samples = 7200;
  result.samples_per_s = 2;
  result.ettr = 0.5;
  result.training_gpu_h = 3;
  result.idle_gpu_h = 1;
  result.usd = 0.72;
  result.phases = {{100, 4, 3, 2.5}, {200, 3, 0, 0}};
  EXPECT_EQ(phases_csv(result), "from_s,live_hosts,used_hosts,samples_per_s\n100,4,3,2.5\n200,3,0,0\n");
  const auto metrics = metrics_of(result);
  EXPECT_EQ(value_of(metrics, "gpu_h"), 4);
  EXPECT_EQ(value_of(metrics, "duration_s"), 3600);
  EXPECT_DOUBLE_EQ(*value_of(metrics, "usd_per_msample"), 100);
  const ReportHead head{.scenario = "r", .rules = "steady"};
  EXPECT_THAT(metrics_table(head, metrics, "table"), HasSubstr("\n  rules: steady\n"));
  const Json json = Json::parse(summary_json(head, 4, 1, result));
  EXPECT_EQ(json.at("kind"), "recovery");
  EXPECT_EQ(json.at("rules"), "steady");
  EXPECT_EQ(json.at("metrics").at("ettr"), 0.5);
}

TEST(Report, MetricNamesAreUnique) {
  std::vector<std::string> names = metric_names();
  EXPECT_THAT(names, ::testing::Contains("avg_jct_s"));
  EXPECT_THAT(names, ::testing::Contains("ettr"));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace jobs_report_test
}  // namespace scalai::report
