#include "ptc/run/policy/policies/shares/rules.h"

#include <gtest/gtest.h>

namespace scalai::policy {
namespace {

TEST(FastestFirst, ByMeanRelativeRate) {
  ShareProblem problem;
  problem.gpus = {1, 1, 1};
  problem.jobs.resize(2);
  for (ShareJob& job : problem.jobs) job.rates = {1, 0.5, 0.25};
  EXPECT_EQ(fastest_first(problem), (std::vector<GpuType>{GpuType(0), GpuType(1), GpuType(2)}));
  problem.jobs[0].rates = {1, 10, 2};
  problem.jobs[1].rates = {0, 3, 1};
  EXPECT_EQ(fastest_first(problem), (std::vector<GpuType>{GpuType(1), GpuType(2), GpuType(0)}));
}

}  // namespace
}  // namespace scalai::policy
