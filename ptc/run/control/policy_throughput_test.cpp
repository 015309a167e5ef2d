#include "ptc/run/control/internal/policy_throughput.h"

#include <gtest/gtest.h>

#include "ptc/cost/step/step_time.h"
#include "ptc/run/control/internal/policy_view.h"
#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace {

using policy::GpuType;
using testing::job_text;

// Two hosts of a slow kind, two of a fast one.
constexpr const char* kMixed = R"(
  schema_version: 1
  name: "mixed"
  cluster {
    name: "mixed"
    hosts { count: 2 gpus: 2 gpu: "a6000-48g" nics: 1 nic: "1GB/s" pcie: "2GB/s" gpu_link: "4GB/s" }
    hosts { count: 2 gpus: 2 gpu: "h100-80g" nics: 1 nic: "1GB/s" pcie: "2GB/s" gpu_link: "4GB/s" }
    fabric { kind: STAR }
  }
)";

class Rates : public ::testing::Test {
 protected:
  void load(const std::string& jobs, bool data_parallel_only = false) {
    auto read = testing::scenario_of(kMixed + jobs);
    SCALAI_CHECK(read.ok(), message_of(read.status()));
    scenario_ = *std::move(read);
    std::vector<std::string> types;
    for (const policy::TypeSpec& type : policy::fleet_of(scenario_.cluster).types) types.push_back(type.name);
    rates_ = std::make_unique<PolicyThroughput>(scenario_, data_parallel_only, types);
  }
  double step_s(int gpus, int type = 0, int job = 0) const { return rates_->step_s(job, GpuType(type), gpus); }

  scenario::Scenario scenario_;
  std::unique_ptr<PolicyThroughput> rates_;
};

const std::string kListed =
    "gpus: 4 steps: 9 configs { layout: \"tp2,dp2\" step_time: \"1s\" } configs { layout: \"tp2\" step_time: \"3s\" } "
    "configs { layout: \"dp1\" step_time: \"5s\" } ";

TEST_F(Rates, AreThoseOfTheLargestConfigurationThatFits) {
  load(job_text("a", kListed));
  EXPECT_EQ(step_s(0), 0);
  EXPECT_EQ(step_s(1), 5);
  EXPECT_EQ(step_s(2), 3);
  EXPECT_EQ(step_s(3), 3);
  EXPECT_EQ(step_s(4), 1);
  EXPECT_EQ(step_s(5), 0) << "there are four of this type";
  policy::Job job;
  job.name = "a";
  EXPECT_DOUBLE_EQ(rates_->rate(job, GpuType(1), 2, 0).per_s, 1 / 3.0);
  EXPECT_EQ(rates_->rate(job, GpuType(1), 5, 0).per_s, 0);
}

TEST_F(Rates, OfAStrategyThatOnlyScalesDataParallelismAreItsOwn) {
  load(job_text("a", kListed), /*data_parallel_only=*/true);
  EXPECT_EQ(step_s(1), 0);
  EXPECT_EQ(step_s(2), 3);
}

TEST_F(Rates, EndAtAUsersLimit) {
  load(job_text("a", kListed));
  rates_->limit(0, 2);
  EXPECT_EQ(step_s(4), 3);
}

TEST_F(Rates, WithoutGivenTimesAreTheClosedForms) {
  load(job_text("a", "gpus: 4 steps: 9 configs { layout: \"tp2,dp2\" } "));
  const scenario::JobSpec& job = scenario_.jobs[0];
  const auto by_hand = [&](const std::vector<int>& devices) {
    return step::step_time({job.shape, job.configs[0].config, job.training},
                           step::hardware_of(scenario_.cluster, job.configs[0].config, testing::device_ids(devices), {},
                                             job.training.precision.math))
        .step_s;
  };
  EXPECT_EQ(step_s(4, 0), by_hand({0, 1, 2, 3}));
  EXPECT_EQ(step_s(4, 1), by_hand({4, 5, 6, 7}));
  EXPECT_NE(step_s(4, 1), step_s(4, 0)) << "another kind of GPU";
}

TEST_F(Rates, OfAJobThatChoosesAreTheParallelizers) {
  load(job_text("a", "gpus: 4 steps: 9 parallel: choose "));
  EXPECT_GT(step_s(1), 0);
  EXPECT_LE(step_s(4), step_s(1)) << "it need not use all of them";
  EXPECT_EQ(step_s(4), step_s(4)) << "kept";
}

}  // namespace
}  // namespace scalai::control
