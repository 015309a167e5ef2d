#include "labs/bounds/offload/offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/cost/step/memory.h"

namespace scalai::step::offload {
namespace offload_test {

using collection::ParallelConfig;
using ::testing::HasSubstr;

ModelShape model_of(int layers) {
  return transformer_shape(
      {.name = "small", .layers = layers, .hidden = 64, .heads = 4, .ffn = 256, .vocab = 300, .sequence = 128});
}

// With room for all nothing moves. With less than the state, what is missing moves in and out.
TEST(OffloadedSteps, KnownAnswers) {
  const ModelShape model = model_of(4);
  const ParallelConfig config;
  const Training training = {
      .global_batch = 1, .micro_batch = 1, .sequence = 8, .precision = find_precision("bf16").value()};
  const Workload workload = {model, config, training};
  const auto all = offloaded_steps(workload, int64_t{1} << 40);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->front().least.transfers, 0);
  EXPECT_EQ(all->front().schedule.sum(), 0);
  const OffloadedStep& step = all->front();
  const int64_t room = step.state_bytes / 2;
  const auto half = offloaded_steps(workload, room);
  ASSERT_TRUE(half.ok()) << half.status();
  // Few tokens: parameters and optimizer state are nearly everything. The embedding's parameters are not read.
  EXPECT_GE(half->front().least.transfers, step.state_bytes - room);
  EXPECT_LE(half->front().least.transfers, half->front().schedule.sum());
  const auto tiny = offloaded_steps(workload, step.needed_bytes - 1);
  EXPECT_EQ(tiny.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(tiny.status()), HasSubstr("on the GPU at once, more than"));
  EXPECT_TRUE(offloaded_steps(workload, step.needed_bytes).ok());
}

// Activations that do not fit go out and come back, once each: nothing else has to move.
TEST(OffloadedSteps, OfManyTokensIsTheActivationsThatDoNotFit) {
  const ModelShape model = model_of(8);
  const ParallelConfig config;
  const Training training = {
      .global_batch = 4, .micro_batch = 4, .sequence = 8192, .precision = find_precision("bf16").value()};
  const Workload workload = {model, config, training};
  const OffloadedStep all = offloaded_steps(workload, int64_t{1} << 40)->front();
  ASSERT_GT(all.activation_bytes, 20 * all.state_bytes);
  const int64_t room = all.activation_bytes / 2 + all.state_bytes;
  const auto found = offloaded_steps(workload, room);
  ASSERT_TRUE(found.ok()) << found.status();
  const OffloadedStep& half = found->front();
  EXPECT_EQ(half.least.by, "wavefront");
  EXPECT_GE(half.least.transfers, 2 * (all.activation_bytes - room));
  EXPECT_LE(static_cast<double>(half.schedule.sum()), 1.5 * static_cast<double>(half.least.transfers));
}

// Never above what a schedule does, and never more with more room; offloaded_steps() checks the former, too.
TEST(OffloadedSteps, AreOrderedForRandomWorkloads) {
  int positive = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    const ModelShape model = model_of(static_cast<int>(4 * random.between(1, 2)));
    ParallelConfig config = {.tp = 1 << random.below(2),
                             .pp = 1 << random.below(2),
                             .dp = 1 << random.below(2),
                             .zero = static_cast<int>(random.below(2))};
    const int micro_batches = 1 << random.below(3);
    Training training = {.global_batch = 2 * config.dp * micro_batches,
                         .micro_batch = 2,
                         .sequence = 1 << random.between(4, 9),
                         .precision = find_precision("bf16").value()};
    if (random.below(3) == 0) training.recompute = Recompute::kFull;
    const Workload workload = {model, config, training};
    const auto all = offloaded_steps(workload, int64_t{1} << 40);
    ASSERT_TRUE(all.ok()) << all.status();
    int64_t needed = 0, total = 0;
    for (const OffloadedStep& step : *all) {
      needed = std::max(needed, step.needed_bytes);
      total = std::max(total, step.state_bytes + step.activation_bytes);
    }
    int64_t last = std::numeric_limits<int64_t>::max();
    for (int i = 0; i <= 4; ++i) {
      const auto steps = offloaded_steps(workload, needed + i * total / 4);
      ASSERT_TRUE(steps.ok()) << steps.status();
      int64_t sum = 0;
      for (const OffloadedStep& step : *steps) {
        EXPECT_LE(step.least.transfers, step.schedule.sum());
        sum += step.least.transfers;
      }
      EXPECT_LE(sum, last);
      last = sum;
      positive += sum > 0;
    }
  }
  EXPECT_GT(positive, 20);
}

TEST(OffloadedSteps, RefusesWhatIsNotModelled) {
  const ModelShape model = model_of(4);
  const ParallelConfig config;
  Training training = {.global_batch = 1,
                       .micro_batch = 1,
                       .sequence = 8,
                       .precision = find_precision("bf16").value(),
                       .schedule = Schedule::kTwoBW};
  EXPECT_THAT(message_of(offloaded_steps({model, config, training}, 1 << 30).status()), HasSubstr("2bw"));
  training.schedule = Schedule::kOneFOneB;
  training.offloaded_layers = 1;
  EXPECT_THAT(message_of(offloaded_steps({model, config, training}, 1 << 30).status()), HasSubstr("offloaded already"));
}

}  // namespace offload_test
}  // namespace scalai::step::offload
