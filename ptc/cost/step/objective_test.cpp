// What a search minimises.

#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/cost/step/search.h"
#include "ptc/cost/step/testing/search.h"

namespace scalai::step {
namespace {

using namespace testing;

TEST(PayOff, CountsSteps) {
  EXPECT_DOUBLE_EQ(*pay_off_steps(3, 2, 10), 10);
  EXPECT_DOUBLE_EQ(*pay_off_steps(3, 2, 0), 0);
  EXPECT_FALSE(pay_off_steps(2, 2, 10));
  EXPECT_FALSE(pay_off_steps(2, 3, 10));
}

TEST(Objective, ScoresByHand) {
  const StepTime time{.step_s = 10, .matrix_s = 3, .memory_s = 1, .tp_s = 2, .bubble_s = 3, .gradients_s = 1};
  SearchSpace space;
  space.host = host_of(8);
  space.host.price_per_hour = 80;
  Hardware hardware = uniform_hardware(space.host, {.dp = 16});
  const auto score = [&](Objective objective) {
    space.objective = objective;
    return score_of(space, {.config = {.dp = 16}, .training = space.base, .time = time}, hardware);
  };
  EXPECT_DOUBLE_EQ(score(Objective::kThroughput), 10);
  EXPECT_DOUBLE_EQ(score(Objective::kCost), 16 * 10 * 10.0 / 3600);
  EXPECT_DOUBLE_EQ(score(Objective::kEnergy), 16 * 700 * (4 + 0.5 * 3 + 0.2 * 3));
  // What the ranks run on counts, not the host that the search was told.
  hardware.price_per_gpu_hour = 4;
  hardware.gpus.clear();
  hardware.stages = {{.gpu = host_of(8).gpu}, {.gpu = host_of(8, "v100-16g").gpu}};
  EXPECT_DOUBLE_EQ(score(Objective::kCost), 16 * 4 * 10.0 / 3600);
  EXPECT_DOUBLE_EQ(score(Objective::kEnergy), 16 * (700 + 300) / 2.0 * (4 + 0.5 * 3 + 0.2 * 3));
  hardware.gpus = {{host_of(8).gpu, 12}, {host_of(8, "v100-16g").gpu, 4}};  // more exact, where it is told
  EXPECT_DOUBLE_EQ(score(Objective::kEnergy), (12 * 700 + 4 * 300) * (4 + 0.5 * 3 + 0.2 * 3));
  // One price that is unknown, and all is counted in hours; one power, in seconds.
  space.host_kinds = {space.host, host_of(8, "v100-16g")};
  EXPECT_DOUBLE_EQ(score(Objective::kCost), 16 * 10.0 / 3600);
  space.host_kinds[1].gpu.power_w = 0;
  EXPECT_DOUBLE_EQ(score(Objective::kEnergy), 16 * (4 + 0.5 * 3 + 0.2 * 3));
}

TEST(Objective, HasAName) {
  for (const Objective objective : {Objective::kThroughput, Objective::kCost, Objective::kEnergy, Objective::kPayOff})
    EXPECT_EQ(find_objective(name_of(objective)).value(), objective);
  EXPECT_NE(message_of(find_objective("througput").status()).find("did you mean \"throughput\""), std::string::npos);
}

// More GPUs than samples to share out: the bill grows with each, the step hardly shrinks.
TEST(Objective, CostLeavesGpusIdle) {
  SearchSpace space = space_of(64, 16, 2048);
  space.all_gpus = false;
  const ModelShape model = named("llama3-8b");
  const int fast = search(model, space)->best.front().config.world();
  space.objective = Objective::kCost;
  EXPECT_LT(search(model, space)->best.front().config.world(), fast);
}

}  // namespace
}  // namespace scalai::step
