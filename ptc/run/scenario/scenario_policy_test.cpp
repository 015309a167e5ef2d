#include "ptc/run/scenario/internal/scenario_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/run/scenario/testing/scenarios.h"

namespace scalai::scenario {
namespace scenario_policy_test {

using ::testing::HasSubstr;
using testing::job_text;
using ::testing::Not;

const std::string kListed =
    "gpus: 4 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: \"2s\" } ";

absl::StatusOr<Scenario> load(const std::string& text) { return testing::scenario_of(testing::kSmallCluster + text); }

std::string problems(const std::string& text) {
  const auto scenario = load(text);
  return scenario.ok() ? "" : message_of(scenario.status());
}

TEST(ScenarioPolicy, IsRead) {
  const auto scenario =
      load("policy { name: \"tiresias\" set: \"threshold=2\" }\n" +
           job_text("a", kListed + "steps: 10 min_gpus: 2 max_gpus: 8 weight: 1.5 submit: \"1min\" deadline: \"1h\"") +
           job_text("b", kListed + "steps: 10"));
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->policy->name, "tiresias");
  EXPECT_EQ(scenario->policy->set, std::vector<std::string>{"threshold=2"});
  const JobSpec &a = scenario->jobs[0], &b = scenario->jobs[1];
  EXPECT_EQ(a.submit_s, 60);
  EXPECT_EQ(a.min_gpus, 2);
  EXPECT_EQ(a.max_gpus, 8);
  EXPECT_EQ(a.weight, 1.5);
  EXPECT_EQ(a.deadline_s, 3600);
  EXPECT_EQ(b.submit_s, 0);
  EXPECT_EQ(b.min_gpus, 4);
  EXPECT_EQ(b.max_gpus, 4);
  EXPECT_FALSE(b.deadline_s);
}

TEST(ScenarioPolicy, ResolvesToWhatItWas) {
  for (const std::string policy : {"policy { name: \"tiresias\" set: \"threshold=2\" }\n",
                                   "policy { exec: \"python3 mine.py\" timeout: \"3s\" }\n"}) {
    const auto scenario =
        load(policy + job_text("a", kListed + "steps: 10 min_gpus: 2 max_gpus: 8 weight: 1.5 submit: \"1ms\" deadline: "
                                              "\"1h\""));
    ASSERT_TRUE(scenario.ok()) << scenario.status();
    const auto again = testing::scenario_of(scenario->resolved_text);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->resolved_text, scenario->resolved_text);
    EXPECT_EQ(again->digest, scenario->digest);
    EXPECT_EQ(again->policy->set, scenario->policy->set);
    EXPECT_EQ(again->policy->exec, scenario->policy->exec);
    EXPECT_EQ(again->policy->timeout_s, scenario->policy->timeout_s);
    EXPECT_EQ(again->jobs[0].submit_s, 0.001);
    EXPECT_EQ(again->jobs[0].max_gpus, 8);
  }
}

TEST(ScenarioPolicy, WithoutOneNothingIsWrittenAboutIt) {
  const auto scenario = load(job_text("a", kListed + "steps: 10"));
  ASSERT_TRUE(scenario.ok());
  for (const std::string word : {"policy", "submit", "min_gpus", "weight:", "deadline", "availability"})
    EXPECT_THAT(scenario->resolved_text, Not(HasSubstr(word)));
}

TEST(ScenarioPolicy, JobsThatComeLaterNeedNotFitTogether) {
  const std::string eight = "gpus: 8 steps: 10 configs { layout: \"tp2,dp4\" step_time: \"1s\" } ";
  EXPECT_THAT(problems(job_text("a", eight) + job_text("b", eight)), HasSubstr("want 16 GPUs together"));
  EXPECT_EQ(problems(job_text("a", eight) + job_text("b", eight + "submit: \"1s\"")), "");
  EXPECT_EQ(problems("policy { name: \"fifo\" }\n" + job_text("a", eight) + job_text("b", eight)), "");
}

TEST(ScenarioPolicy, JobsThatChooseMayBeginAnywhere) {
  const std::string eight = "gpus: 8 steps: 10 parallel: choose ";
  const auto scenario = load("policy { name: \"fifo\" }\n" + job_text("a", eight) + job_text("b", eight));
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->jobs[1].configs.front(), scenario->jobs[0].configs.front());
}

TEST(ScenarioPolicy, AllProblemsAreNamedWhereTheyAre) {
  const std::string text = problems(
      "policy { name: \"tiresius\" }\n" +
      job_text("a", kListed + "steps: 10 min_gpus: 6 max_gpus: 2 weight: -1 submit: \"-3s\" deadline: \"1s\"") +
      job_text("b",
               "devices: [0, 1] steps: 10 configs { layout: \"tp2\" step_time: \"1s\" } submit: \"5s\" deadline: "
               "\"5s\"") +
      "events { at: \"1s\" resize { job: \"a\" gpus: 2 } }\nevents { at: \"1s\" redeploy { job: \"a\" hosts: [0, 1] } "
      "}\n"
      "throughputs { source: \"table\" }\nchanges { seconds: \"30s\" }\nprices { file: \"x\" }\n"
      "window { to_job: 5 }\nestimates { uniform: 0.1 }\nvirtual_clusters { }\nmetrics { set: \"a=1\" }\n");
  for (const std::string problem :
       {"unknown policy \"tiresius\"", "\"min_gpus\" is 6, more than the 4 GPUs", "\"max_gpus\" is 2, fewer than the 4",
        "\"weight\" must be greater than 0", "\"-3s\" is not a duration: it is negative",
        "the deadline is not after the job comes", "the policy says which GPUs a job gets",
        "a resize is the policy's to decide", "a redeploy is the policy's to decide",
        "\"throughputs\" is for the jobs of a workload", "\"changes\" is for the jobs of a workload",
        "\"prices\" is for the jobs of a workload", "\"window\" is for the jobs of a workload",
        "\"estimates\" is for the jobs of a workload", "\"virtual_clusters\" is for the jobs of a workload",
        "\"metrics\" is for the jobs of a workload"})
    EXPECT_THAT(text, HasSubstr(problem));
  EXPECT_THAT(text, HasSubstr("test.textproto:11:16: error: unknown policy"));
}

TEST(ScenarioPolicy, ParametersAreThePolicys) {
  const auto said = [&](const std::string& policy) { return problems(policy + job_text("a", kListed + "steps: 10")); };
  EXPECT_THAT(said("policy { name: \"tiresias\" set: \"treshold=2\" }\n"), HasSubstr("unknown parameter \"treshold\""));
  EXPECT_THAT(said("policy { name: \"tiresias\" set: \"threshold\" }\n"), HasSubstr("gives no value"));
  EXPECT_THAT(said("policy { name: \"tiresias\" set: \"threshold=x\" }\n"), HasSubstr("threshold"));
  EXPECT_THAT(said("policy { name: \"tiresias\" set: \"threshold=1\" set: \"threshold=2\" }\n"),
              HasSubstr("set twice"));
  EXPECT_THAT(said("policy { name: \"afs-l\" set: \"x=1\" }\n"), HasSubstr("known are interval"));
  EXPECT_THAT(said("policy { }\n"), HasSubstr("\"name\" is missing"));
  EXPECT_THAT(said("policy { name: \"fifo\" exec: \"x\" }\n"), HasSubstr("exclude each other"));
  EXPECT_THAT(said("policy { exec: \"x\" set: \"a=1\" }\n"), HasSubstr("a program has no parameters"));
  EXPECT_THAT(said("policy { exec: \"x\" timeout: \"0s\" }\n"), HasSubstr("answers in no time"));
  EXPECT_THAT(said("policy { name: \"fifo\" timeout: \"1s\" }\n"), HasSubstr("only a program has a timeout"));
}

TEST(ScenarioPolicy, FieldsThatNeedOneSaySo) {
  EXPECT_THAT(problems(job_text("a", kListed + "steps: 10 min_gpus: 2")),
              HasSubstr("\"min_gpus\" is for a policy, and the scenario has none"));
  EXPECT_EQ(problems(job_text("a", kListed + "steps: 10 submit: \"1s\" deadline: \"1h\"")), "");
}

TEST(ScenarioPolicy, WhoMustKnowHowLongJobsAreIsToldWhenOneIsNot) {
  const std::string job = job_text("a", kListed);
  EXPECT_THAT(problems("until: \"1h\" policy { name: \"srtf\" }\n" + job),
              HasSubstr("policy \"srtf\" has to know how long jobs are, and job \"a\" has no \"steps\""));
  EXPECT_EQ(problems("until: \"1h\" policy { name: \"fifo\" }\n" + job), "");
}

TEST(ScenarioPolicy, TheSmallestGrantMustBeOfUse) {
  EXPECT_THAT(problems("policy { name: \"fifo\" }\n" + job_text("a", kListed + "steps: 10 min_gpus: 1")),
              HasSubstr("job \"a\" has no config for 1 GPUs or fewer"));
}

TEST(ScenarioPolicy, AJobThatNeverComesIsAMistake) {
  EXPECT_THAT(problems("until: \"10s\"\n" + job_text("a", kListed + "steps: 10 submit: \"11s\"")),
              HasSubstr("this job comes after the end of the scenario"));
}

TEST(ScenarioPolicy, AWorkloadIsForAnother) {
  const std::string text = problems("workload { file: \"x\" }\n");
  EXPECT_THAT(text, HasSubstr("a scenario with a workload is simulated as a whole"));
  EXPECT_THAT(text, HasSubstr("\n1 error\n")) << "that is enough";
}

}  // namespace scenario_policy_test
}  // namespace scalai::scenario
