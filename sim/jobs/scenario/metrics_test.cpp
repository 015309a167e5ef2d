#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/jobs/scenario/testing/support.h"

namespace scalai::scenario {
namespace sched_metrics_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kCluster;
using testing::kHead;

class UserMetrics : public testing::ClusterScenarios {
 protected:
  void SetUp() override {
    ClusterScenarios::SetUp();
    write("s/jobs.csv", "scalai-trace,1,jobs,x\nname,submit_s,gpus,duration_s\na,0,1,5\nb,10,1,5\n");
  }
  const std::string base_ = kHead + kCluster + "workload { file: \"jobs.csv\" }\n";
};

TEST_F(UserMetrics, AreChecked) {
  if (!report::check_expression({.name = "t", .columns = {"x"}, .text_columns = {}, .rows = {}}, "sum(x)").ok()) {
    GTEST_SKIP() << "built without SQLite";
  }
  const auto loaded = load(base_ + "metrics { set: \"late=mean(ftf > 1)\" set: \"eq=sum(gpus = 1)\" }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ((*loaded)->parts.metrics.size(), 2u);
  EXPECT_EQ((*loaded)->parts.metrics[1].name, "eq");
  EXPECT_EQ((*loaded)->parts.metrics[1].expression, "sum(gpus = 1)");
  const auto expect = [&](const std::string& text, const std::string& problem) {
    EXPECT_THAT(problems(base_ + "metrics { " + text + " }\n"), HasSubstr(problem));
  };
  expect("set: \"late=mean(jct)\"", "x.textproto:5:16: error: \"late\": no such column: jct");
  expect("set: \"late=mean(jct)\"", "hint: did you mean \"jct_s\"?");
  expect("set: \"late\"", "\"late\" defines no metric");
  expect("set: \"Late=sum(gpus)\"", "\"Late=sum(gpus)\" defines no metric");
  expect("set: \"jobs=sum(gpus)\"", "\"jobs\" is a metric that runs have anyway");
  expect("set: \"a=sum(gpus)\" set: \"a=sum(gpus)\"", "\"a\" is defined twice");
  expect("set: \"a=mean(estimate)\"", "no such column: estimate");
  EXPECT_TRUE(
      load(base_ + "policy { name: \"srtf\" }\nestimates { uniform: 0.5 }\nmetrics { set: \"a=mean(estimate)\" }\n")
          .ok());
  expect("set: \"a=max(waiting_job) FROM utilization\"", "hint: did you mean \"waiting_jobs\"?");
  expect("set: \"a=max(reason) FROM placements\"", "these columns are texts: job, hosts, what, devices, reason");
  expect("set: \"a=max(x) FROM users\"", "hint: there are jobs, utilization, placements, hosts, entities, costs");
  expect("set: \"a=(SELECT max(at_s) FROM utilization)\"", "no such table: utilization");
  EXPECT_TRUE(load(base_ + "window { to_job: 2 }\nmetrics { set: \"a=min(in_window)\" }\n").ok());
}

TEST_F(UserMetrics, AreOfAFileOfTheReport) {
  if (!report::check_expression({.name = "t", .columns = {"x"}, .text_columns = {}, .rows = {}}, "sum(x)").ok()) {
    GTEST_SKIP() << "built without SQLite";
  }
  const auto loaded = load(base_ +
                           "metrics { set: \"a=sum(training_gpus * for_s) / sum(for_s) FROM utilization\" "
                           "set: \"b=sum(to_s - from_s) FILTER (WHERE what = 'waits')\\nfrom placements \" }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->parts.metrics[0].table, "utilization");
  EXPECT_EQ((*loaded)->parts.metrics[0].expression, "sum(training_gpus * for_s) / sum(for_s)");
  EXPECT_EQ((*loaded)->parts.metrics[1].table, "placements");
  EXPECT_EQ((*loaded)->parts.metrics[1].expression, "sum(to_s - from_s) FILTER (WHERE what = 'waits')");
  for (const char* plain : {"sum(gpus)--from\\nhosts", "(SELECT sum(gpus) FROM jobs)", "count(*) + 'from jobs'"}) {
    const auto other = load(base_ + "metrics { set: \"a=" + plain + "\" }\n");
    if (other.ok()) {
      EXPECT_EQ((*other)->parts.metrics[0].table, "jobs") << plain;
    }
  }
  EXPECT_THAT(problems(base_ + "metrics { set: \"a=" + std::string(1 << 19, '(') + " FROM jobs\" }\n"),
              HasSubstr("error"));
  for (const std::string& name : metric_tables()) {
    EXPECT_FALSE(metric_table_of((*loaded)->many(), name).columns.empty()) << name;
    EXPECT_TRUE(load(base_ + "metrics { set: \"a=count(*) FROM " + name + "\" }\n").ok()) << name;
  }
  report::QueryTable table = metric_table_of((*loaded)->many(), "costs");
  add_rows("kind,name,gpu_h,cost_usd\ntype,\"a,b\",1,2\njob,c,3,\n", &table);
  EXPECT_THAT(table.rows, ElementsAre(ElementsAre("type", "a,b", "1", "2"), ElementsAre("job", "c", "3", "")));
}

}  // namespace sched_metrics_test
}  // namespace scalai::scenario
