#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/jobs/scenario/testing/support.h"

namespace scalai::scenario {
namespace sched_options_test {

using ::testing::HasSubstr;
using testing::kCluster;
using testing::kHead;

// Five jobs, submitted at 0, 10, 20, 20 and 40 s.
class ScheduleOptions : public testing::ClusterScenarios {
 protected:
  void SetUp() override {
    ClusterScenarios::SetUp();
    std::string jobs =
        "scalai-trace,1,jobs,x,\nname,type,submit_s,gpus,min_gpus,max_gpus,work,duration_s,weight,deadline_s,entity,"
        "batch\n";
    for (const char* job : {"a,t,0", "b,t,10", "c,t,20", "d,t,20", "e,t,40"})
      jobs += std::string(job) + ",1,1,1,5,5,1,,,0\n";
    write("s/jobs.csv", jobs);
  }
  const std::string base_ = kHead + kCluster + "workload { file: \"jobs.csv\" }\n";
};

TEST_F(ScheduleOptions, WindowsByNumberAndByTime) {
  const auto window_of = [&](const std::string& text) {
    const auto loaded = load(base_ + "window { " + text + " }\n");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? (*loaded)->many().window.value_or(policy::Window{}) : policy::Window{};
  };
  policy::Window window = window_of("from_job: 1 to_job: 3");
  EXPECT_EQ(window.from_job, 1u);
  EXPECT_EQ(window.to_job, 3u);
  EXPECT_EQ(window.from_s, 10) << "the submission of its first job";
  EXPECT_EQ(window.to_s, policy::kNever);
  EXPECT_FALSE(window.run_on);
  window = window_of("from_job: 2 run_on: true");
  EXPECT_EQ(window.to_job, 5u);
  EXPECT_TRUE(window.run_on);
  EXPECT_EQ(window_of("to_job: 2").from_job, 0u);
  window = window_of("from: \"10s\" to: \"20s\"");
  EXPECT_EQ(window.from_job, 1u);
  EXPECT_EQ(window.to_job, 2u) << "jobs of 20 s come after it";
  EXPECT_EQ(window.from_s, 10);
  EXPECT_EQ(window.to_s, 20);
  window = window_of("from: \"15s\"");
  EXPECT_EQ(window.from_job, 2u);
  EXPECT_EQ(window.to_job, 5u);
  EXPECT_EQ(window.to_s, policy::kNever);
}

TEST_F(ScheduleOptions, WindowsThatAreNone) {
  const auto expect = [&](const std::string& text, const std::string& problem) {
    EXPECT_THAT(problems(base_ + "window { " + text + " }\n"), HasSubstr(problem));
  };
  expect("from_job: 5", "x.textproto:5:20: error: there is no job 5");
  expect("from_job: 5", "hint: the workload has 5 jobs, 0 to 4");
  expect("from_job: -1", "there is no job -1");
  expect("from_job: 2 to_job: 2", "x.textproto:5:30: error: jobs 2 to before 2 are no window");
  expect("to_job: 6", "hint: it is the first job that does not count any more: 1 to 5");
  expect("from_job: 2 to: \"1h\"", "a window is of jobs by number or by time, not both");
  expect("from: \"20s\" to: \"20s\"", "the window ends at 20 s, before it begins");
  expect("from: \"soon\"", "\"soon\" is not a duration");
  expect("from: \"41s\"", "no job is submitted in the window");
  expect("to: \"0s\"", "the window ends at 0 s, before it begins");
  expect("run_on: true", "this window says neither which jobs nor which time counts");
  EXPECT_THAT(
      problems(kHead + kCluster + "recovery { design: \"reshard\" }\navailability { generator: \"poisson\" }\n" +
               "window { to_job: 1 }\n"),
      HasSubstr("\"window\" has no meaning with \"recovery\""));
}

TEST_F(ScheduleOptions, EstimatesAreChecked) {
  const std::string srtf = base_ + "policy { name: \"srtf\" }\n";
  const auto expect = [&](const std::string& text, const std::string& problem) {
    EXPECT_THAT(problems(srtf + "estimates { " + text + " }\n"), HasSubstr(problem));
  };
  expect("uniform: 1", "x.textproto:6:22: error: \"uniform\" is 1, of [0, 1)");
  expect("uniform: -0.1", "\"uniform\" is -0.1");
  expect("log_normal: 11", "\"log_normal\" is 11, of 0 to 10");
  expect("uniform: 0.1 log_normal: 0.1", "exclude each other");
  EXPECT_THAT(
      problems(kHead + kCluster + "recovery { design: \"reshard\" }\navailability { generator: \"poisson\" }\n" +
               "estimates { uniform: 0.1 }\n"),
      HasSubstr("\"estimates\" has no meaning with \"recovery\""));
  const auto noted = [&](const std::string& policy) {
    const auto loaded = load(base_ + "policy { name: \"" + policy + "\" }\nestimates { uniform: 0.1 }\n");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() && !(*loaded)->many().notes.empty() ? (*loaded)->many().notes.back() : std::string();
  };
  EXPECT_EQ(noted("tiresias"), "tiresias does not ask how long jobs take: estimates change nothing");
  EXPECT_EQ(noted("srtf"), "");
}

// An error of 0 is as no estimates at all, to the last byte: runs have the same digest.
TEST_F(ScheduleOptions, EstimatesWithoutErrorAreNone) {
  const std::string srtf = base_ + "policy { name: \"srtf\" }\n";
  const auto plain = load(srtf), zero = load(srtf + "estimates { uniform: 0 }\n"),
             off = load(srtf + "estimates { uniform: 0.1 }\n");
  ASSERT_TRUE(plain.ok() && zero.ok() && off.ok());
  EXPECT_EQ((*plain)->resolved_text, (*zero)->resolved_text);
  EXPECT_EQ((*plain)->digest, (*zero)->digest);
  EXPECT_NE((*plain)->digest, (*off)->digest);
  EXPECT_EQ(estimate_factors_of(**zero), std::vector<double>(5, 1.0));
  EXPECT_EQ(estimate_factors_of(**off), policy::estimate_factors({.uniform = 0.1}, 3, 5));
}

class Quotas : public ScheduleOptions {
 protected:
  void SetUp() override {
    ScheduleOptions::SetUp();
    std::string jobs =
        "scalai-trace,1,jobs,x,\nname,type,submit_s,gpus,min_gpus,max_gpus,work,duration_s,weight,deadline_s,entity,"
        "batch\n";
    for (const char* entity : {"red", "blue", "red", "green"})
      jobs += "j" + std::to_string(jobs.size()) + ",t,0,1,1,1,5,5,1,," + entity + ",0\n";
    write("s/jobs.csv", jobs);
  }
};

TEST_F(Quotas, AreReadByEntityAndType) {
  const auto loaded = load(base_ +
                           "virtual_clusters {\n  sharing: \"borrow\"\n  quotas { name: \"red\" gpus: 5 }\n"
                           "  quotas { name: \"*\" gpus: 2 }\n}\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE((*loaded)->many().quotas);
  const policy::Quotas& quotas = *(*loaded)->many().quotas;
  EXPECT_TRUE(quotas.borrow);
  ASSERT_EQ(quotas.clusters.size(), 2u);
  EXPECT_EQ(quotas.clusters[0].quota, std::vector<int>{5});
  EXPECT_EQ(quotas.cluster_of, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_TRUE(make_policy(**loaded).ok());
}

TEST_F(Quotas, NamesThatNoJobHasAreNamed) {
  const auto loaded = load(base_ +
                           "virtual_clusters { quotas { name: \"bleu\" gpus: 3 } quotas { name: \"red\" gpus: 2 }"
                           " quotas { name: \"*\" gpus: 3 } }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT((*loaded)->many().notes,
              ::testing::Contains("no job is of the virtual cluster \"bleu\": is \"blue\" meant?"));
  EXPECT_THAT(problems(base_ + "virtual_clusters { quotas { name: \"bleu\" gpus: 3 } quotas { name: \"red\" gpus: 2 }"
                               " quotas { name: \"green\" gpus: 2 } }\n"),
              AllOf(HasSubstr("1 entity of jobs without a quota, \"blue\""), HasSubstr("is \"blue\" meant?")));
}

TEST_F(Quotas, ProblemsAreNamed) {
  const auto expect = [&](const std::string& text, const std::string& problem, const std::string& policy = "fifo") {
    EXPECT_THAT(problems(base_ + "policy { name: \"" + policy + "\" }\nvirtual_clusters { " + text + " }\n"),
                HasSubstr(problem));
  };
  expect("sharing: \"lend\" quotas { name: \"*\" gpus: 2 }",
         "x.textproto:6:29: error: unknown way of sharing \"lend\"");
  expect("quotas { name: \"*\" gpus: 9 }", "quotas of 9 v100-16g GPUs, the cluster has 8");
  expect("quotas { gpus: 2 }", "name");
  expect("quotas { name: \"*\" gpus: -2 }", "-2 GPUs are no quota");
  expect("quotas { name: \"red\" gpus: 1 } quotas { name: \"red\" gpus: 2 }", "\"red\" has a quota already");
  expect("quotas { name: \"red\" gpus: 1 }", "2 entities of jobs without a quota, \"blue\" with 1 job among them");
  expect("quotas { name: \"*\" gpus: 2 gpu: \"v100\" }", "unknown GPU kind \"v100\"");
  expect("quotas { name: \"*\" gpus: 2 }", "on-demand-only chooses hosts, and cannot keep to a quota",
         "on-demand-only");
  expect("", "quotas");
}

TEST_F(Quotas, AndEstimatesNeedRounds) {
  const std::string ideal = base_ + "policy { name: \"gavel-finish-time\" set: \"ideal=true\" }\n";
  EXPECT_TRUE(load(ideal).ok());
  EXPECT_THAT(
      problems(ideal + "estimates { uniform: 0.1 }\n"),
      HasSubstr("x.textproto:6:1: error: \"estimates\" has no meaning with shares that are applied continuously"));
  EXPECT_THAT(problems(ideal + "virtual_clusters { quotas { name: \"*\" gpus: 8 } }\n"),
              HasSubstr("\"virtual_clusters\" has no meaning with shares that are applied continuously"));
}

}  // namespace sched_options_test
}  // namespace scalai::scenario
