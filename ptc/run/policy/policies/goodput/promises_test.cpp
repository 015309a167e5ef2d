#include "ptc/run/policy/policies/goodput/promises.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ptc/base/random.h"

namespace scalai::policy {
namespace {

const std::vector<Level> kLevels = {{1, 1}, {2, 1.8}, {4, 3}};

PlanRequest wanting(double work, double deadline_s) {
  return {.work = work, .deadline_s = deadline_s, .gpus_now = 0, .change_s = 0, .levels = kLevels};
}

TEST(MinimumShare, IsTheLeastLevelThatEndsInTime) {
  const FreeGpus free(0, 4);
  EXPECT_EQ(minimum_share(wanting(100, 100), free, 10)->front().gpus, 1);
  EXPECT_EQ(minimum_share(wanting(100, 99), free, 10)->front().gpus, 2);
  EXPECT_EQ(minimum_share(wanting(100, 55), free, 10)->front().gpus, 4);
  EXPECT_FALSE(minimum_share(wanting(100, 33), free, 10).has_value());
  // It ends at 55.6 s and holds its GPUs until the slot is over.
  const auto plan = minimum_share(wanting(100, 60), free, 10);
  ASSERT_EQ(plan->size(), 1U);
  EXPECT_DOUBLE_EQ(plan->front().to_s, 60);
}

TEST(MinimumShare, FillsWhatOthersLeave) {
  FreeGpus free(0, 4);
  free.take({{0, 50, 3}});  // 1 free, then 4
  const auto plan = minimum_share(wanting(100, 80), free, 10);
  ASSERT_TRUE(plan.has_value());
  // Level 2: 50 s x 1 + 30 s x 1.8 = 104.
  ASSERT_EQ(plan->size(), 2U);
  EXPECT_EQ((*plan)[0].gpus, 1);
  EXPECT_EQ((*plan)[1].gpus, 2);
  free.take(*plan);
  EXPECT_EQ(free.least(), 0);
  EXPECT_EQ(free.steps().back().gpus, 4);
  free.take({{0, 10, 1}});
  EXPECT_EQ(free.least(), -1);
}

TEST(MinimumShare, ChangesTakeTheirTime) {
  const FreeGpus free(0, 4);
  PlanRequest request = wanting(100, 105);
  request.change_s = 5;
  EXPECT_EQ(minimum_share(request, free, 10)->front().gpus, 1);
  request.deadline_s = 104;
  EXPECT_EQ(minimum_share(request, free, 10)->front().gpus, 2);
  request.gpus_now = 1;  // no change needed
  EXPECT_EQ(minimum_share(request, free, 10)->front().gpus, 1);
}

TEST(BestShare, TakesAllThereIs) {
  const FreeGpus free(0, 3);
  const JobPlan plan = best_share(wanting(90, 10), free, 10);
  EXPECT_EQ(plan.front().gpus, 2);
  EXPECT_DOUBLE_EQ(plan_end(wanting(90, 10), plan, 0), 50);
  EXPECT_TRUE(best_share({}, free, 10).empty());
}

// Second by second: the work of a level over free GPUs that vary.
TEST(MinimumShare, AgreesWithAWalkThroughSeconds) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    FreeGpus free(0, 4);
    std::vector<int> gpus(400, 4);
    for (int64_t k = random.between(0, 4); k > 0; --k) {
      const auto from = random.between(0, 200), to = from + random.between(1, 100);
      const int taken = static_cast<int>(random.between(0, 1));
      free.take({{static_cast<double>(from), static_cast<double>(to), taken}});
      for (auto s = from; s < to; ++s) gpus[static_cast<size_t>(s)] -= taken;
    }
    const double work = static_cast<double>(random.between(1, 300));
    const double deadline = static_cast<double>(random.between(1, 390));
    int expected = 0;
    for (const Level& cap : kLevels) {
      double done = 0;
      for (size_t s = 0; s < static_cast<size_t>(deadline); ++s) {
        double per_s = 0;
        for (const Level& level : kLevels) {
          if (level.gpus <= std::min(cap.gpus, gpus[s])) per_s = level.per_s;
        }
        done += per_s;
      }
      if (done >= work - 1e-9) {
        expected = cap.gpus;
        break;
      }
    }
    const auto plan = minimum_share(wanting(work, deadline), free, 1);
    ASSERT_EQ(plan.has_value(), expected > 0);
    if (!plan.has_value()) continue;
    int most = 0;
    for (const PlanSegment& segment : *plan) most = std::max(most, segment.gpus);
    EXPECT_LE(most, expected);
    EXPECT_LE(plan_end(wanting(work, deadline), *plan, 0), deadline * (1 + 1e-9));
    free.take(*plan);
    EXPECT_GE(free.least(), 0);
  }
}

TEST(PlanEnd, GoesOnInTheMiddle) {
  const JobPlan plan = {{0, 10, 1}, {10, 100, 4}};
  EXPECT_DOUBLE_EQ(plan_end(wanting(40, 0), plan, 0), 20);
  EXPECT_DOUBLE_EQ(plan_end(wanting(40, 0), plan, 5), 5 + 5 + 35.0 / 3);
  EXPECT_EQ(plan_end(wanting(1000, 0), plan, 0), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace scalai::policy
