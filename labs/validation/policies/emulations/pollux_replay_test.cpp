#include "labs/validation/policies/emulations/pollux_replay.h"

#include <cmath>

#include "gtest/gtest.h"
#include "ptc/run/policy/policies/goodput/testing/profiles.h"

namespace scalai::policy::validation {
namespace {

Workload jobs_at(const std::vector<double>& submits) {
  Workload workload;
  for (const double submit_s : submits) {
    Job& job = workload.jobs.emplace_back();
    job.type = "tiny";
    job.submit_s = submit_s;
  }
  return workload;
}

// One GPU, one job: comes at 10, has the GPU at 60 and trains from 90 on, a step of batch 8 in 2 s. Two epochs of 100
// steps end at 490. With the best batch (a larger one gains less than it takes) nothing else comes out.
TEST(PolluxReplay, OneJobByHand) {
  const policy::testing::TinyProfiles files;
  const auto profiles = Profiles::load(files.folder());
  ASSERT_TRUE(profiles.ok());
  for (const bool as_published : {true, false}) {
    const auto times = replay_pollux(*profiles, jobs_at({10}),
                                     {.hosts = 1,
                                      .gpus_per_host = 1,
                                      .fitted_batch = as_published,
                                      .initial_batch = as_published,
                                      .rounded = as_published});
    ASSERT_TRUE(times.ok()) << times.status().ToString();
    EXPECT_NEAR(times->front(), 480, 1e-9);
  }
}

TEST(PolluxReplay, RoundsEndsOfEpochsAndIsTheSameTwice) {
  const policy::testing::TinyProfiles files;
  const auto profiles = Profiles::load(files.folder());
  ASSERT_TRUE(profiles.ok());
  const Workload workload = jobs_at({0, 5, 100, 130, 200});
  PolluxReplay settings{.hosts = 2, .gpus_per_host = 2};
  const auto times = replay_pollux(*profiles, workload, settings);
  ASSERT_TRUE(times.ok()) << times.status().ToString();
  EXPECT_EQ(*times, *replay_pollux(*profiles, workload, settings));
  for (const double time_s : *times) EXPECT_EQ(time_s, std::floor(time_s));
  settings.rounded = false;
  double fractions = 0;
  for (const double time_s : *replay_pollux(*profiles, workload, settings)) fractions += time_s - std::floor(time_s);
  EXPECT_GT(fractions, 0.01);
}

TEST(PolluxReplay, NamesAnUnknownApplication) {
  const policy::testing::TinyProfiles files;
  const auto profiles = Profiles::load(files.folder());
  ASSERT_TRUE(profiles.ok());
  Workload workload = jobs_at({0});
  workload.jobs.front().type = "huge";
  EXPECT_NE(replay_pollux(*profiles, workload, {}).status().ToString().find("\"huge\""), std::string::npos);
}

}  // namespace
}  // namespace scalai::policy::validation
