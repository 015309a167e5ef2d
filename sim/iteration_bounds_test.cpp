// What bounds the work: many micro-batches, jobs of very different length.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/iteration.h"
#include "sim/testing/iteration_fixture.h"

namespace scalai::sim {
namespace {

using collection::ParallelConfig;
using step::Schedule;
using step::StageWork;
using step::StepParts;
using testing::between;
using testing::inside;
using testing::layout;
using testing::plain_parts;
using testing::small_cluster;
using testing::step_of;

// What follows from fewer micro-batches is what all of them take.
TEST(IterationBounds, ManyMicroBatchesFollowFromFewer) {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kTwoBW}) {
    for (const char* name : {"tp2,pp2", "pp4", "dp2,pp2", "pp2,dp2,vpp2"}) {
      const ParallelConfig config = layout(name);
      if (config.vpp > 1 && schedule != Schedule::kOneFOneB) continue;
      for (const int m : {400, 402, 1000}) {
        SCOPED_TRACE(fmt::format("{} {} m{}", name_of(schedule), name, m));
        StepParts parts = plain_parts(config, m, 1, 2);
        parts.gradients_hidden = parts.parameters_hidden = 0.75;
        for (StageWork& stage : parts.stages) {
          stage.send = between(2, 0.125);
          if (config.tp > 1) stage.forward[0].tp = inside(10, 0.25);
          if (config.dp > 1) stage.gradients = between(70);
        }
        parts.stages.back().backward.back().matrix_s = 2.5;
        const double all = step_of(small_cluster(), config, parts, schedule, {.most_micro_batches = 0});
        EXPECT_NEAR(step_of(small_cluster(), config, parts, schedule) / all, 1, 1e-9);
      }
    }
  }
}

// 2BW's gradients take longer than few micro-batches, so that these would say that more take nothing.
TEST(IterationBounds, GradientsOfTwoBWHideBehindManyMicroBatches) {
  const ParallelConfig config = layout("dp2,pp2");
  StepParts parts = plain_parts(config, 2000, 1, 2);
  parts.gradients_hidden = parts.parameters_hidden = 1;
  for (StageWork& stage : parts.stages) stage.gradients = between(30000);
  const double all = step_of(small_cluster(), config, parts, Schedule::kTwoBW, {.most_micro_batches = 0});
  EXPECT_NEAR(step_of(small_cluster(), config, parts, Schedule::kTwoBW) / all, 1, 1e-9);
}

TEST(IterationBounds, ABillionMicroBatchesAreNoMoreWork) {
  const ParallelConfig config = layout("pp4");
  for (const Schedule schedule : {Schedule::kOneFOneB, Schedule::kTwoBW}) {
    const StepParts parts = plain_parts(config, 1'000'000'000, 1, 2);
    const double bubble = schedule == Schedule::kTwoBW ? 0 : 9;
    EXPECT_NEAR(step_of(small_cluster(), config, parts, schedule) / (3e9 + bubble), 1, 1e-9);
  }
}

// One trains a thousand steps while the other does one: it is measured over what it does in the time that there is.
TEST(IterationBounds, JobsOfVeryDifferentLengthEnd) {
  const cluster::Cluster cluster = small_cluster();
  const change::Platform platform(cluster);
  const ParallelConfig config = layout("dp2");
  StepParts quick = plain_parts(config, 1, 0.001, 0.002), slow = plain_parts(config, 100'000, 1, 2);
  quick.stages[0].gradients = between(0.01);
  slow.stages[0].gradients = between(10);
  const std::vector<DeviceId> one = {DeviceId(0), DeviceId(2)};
  const std::vector<IterationJob> jobs = {{.config = config, .devices = one, .parts = {&quick, 1}},
                                          {.config = config, .devices = one, .parts = {&slow, 1}}};
  const IterationResult result = simulate_iterations(platform, {}, jobs, {.max_events = 100'000});
  EXPECT_LE(result.events, 200'000);
  EXPECT_NEAR(result.step_s[0], 0.004, 0.0005);
  EXPECT_NEAR(result.step_s[1] / 300'000, 1, 0.01);
}

}  // namespace
}  // namespace scalai::sim
