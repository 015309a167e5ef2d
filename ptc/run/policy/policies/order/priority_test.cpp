#include "ptc/run/policy/policies/order/priority.h"

#include <gmock/gmock.h>

#include "ptc/run/policy/policies/order/testing/support.h"

namespace scalai::policy::order {
namespace {

using ::testing::ElementsAre;

Job weighted_job(const std::string& name, double submit_s, int gpus, double seconds, double weight) {
  Job job = testing::rigid_job(name, submit_s, gpus, seconds);
  job.weight = weight;
  return job;
}

// On four GPUs the second job stops the first, and the third fits beside it; the fourth has the weight of the first,
// which came earlier.
Workload four_jobs() {
  return {.name = "",
          .jobs = {weighted_job("a", 0, 3, 100, 1), weighted_job("b", 10, 3, 50, 2), weighted_job("c", 20, 1, 30, 1),
                   weighted_job("d", 30, 2, 10, 1)}};
}

TEST(Priority, MoreWeightStopsLess) {
  const Outcome outcome = play(make_order_policy("priority").get(), four_jobs(), testing::plain_fleet(1, 4));
  EXPECT_THAT(finish_times(outcome), ElementsAre(150, 60, 50, 160));
  EXPECT_EQ(outcome.jobs[0].preemptions, 1);
  EXPECT_EQ(outcome.jobs[1].preemptions, 0);
}

TEST(Priority, WithoutPreemptionMoreWeightStartsFirst) {
  Workload workload = four_jobs();
  workload.jobs[3].weight = 3;
  const auto policy = make_order_policy("priority", {{"preempt", "false"}});
  EXPECT_FALSE(policy->traits().preemptive);
  const Outcome outcome = play(policy.get(), workload, testing::plain_fleet(1, 4));
  EXPECT_THAT(finish_times(outcome), ElementsAre(100, 160, 50, 110)) << "d of weight 3 starts before b of weight 2";
}

}  // namespace
}  // namespace scalai::policy::order
