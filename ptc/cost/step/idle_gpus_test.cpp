#include "ptc/cost/step/internal/idle_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/cost/step/internal/search_space.h"
#include "ptc/cost/step/testing/search.h"

namespace scalai::step {
namespace {

using namespace testing;
using ::testing::HasSubstr;

// Sixteen replicas over eight GPUs each, and a host of eight GPUs is gone: 1,024 samples go to 15 no better than to 8.
SearchSpace without_a_host() {
  SearchSpace space = space_of(120, 1024, 1024);
  space.host = host_of(8, "h100-80g");
  space.pins = parse_pins("tp8,pp1,cp1").value();
  space.all_gpus = false;
  space.micro_batches = {1};
  space.keep = 1;
  space.explain_idle = true;
  return space;
}

TEST(BatchTolerance, OneLostHostOfSixteenCostsOneHost) {
  const ModelShape model = named("gpt3-xl");
  SearchSpace space = without_a_host();
  const auto strict = search(model, space);
  ASSERT_TRUE(strict.ok() && !strict->best.empty()) << strict.status();
  EXPECT_EQ(strict->best[0].config.world(), 64);
  EXPECT_EQ(strict->best[0].training.global_batch, 1024);
  // 1,020 = 68 · 15 is 4 of 1,024 away, 0.39 %: the least tolerance in thousandths is 0.004.
  EXPECT_EQ(strict->idle,
            "64 of 120 GPUs: no valid layout of 65 to 120; tp8,dp15,zero1 on 120 GPUs would be faster, but dp 15 · "
            "micro-batch 1 does not divide the batch of 1024 (with batch_tolerance 0.004: 1020 would)");
  space.batch_tolerance = 0.004;
  const auto tolerant = search(model, space);
  ASSERT_TRUE(tolerant.ok() && !tolerant->best.empty());
  EXPECT_EQ(tolerant->best[0].config.dp, 15);
  EXPECT_EQ(tolerant->best[0].training.global_batch, 1020);
  EXPECT_EQ(tolerant->idle, "");
  space.batch_tolerance = 0.003;
  EXPECT_EQ(search(model, space)->best[0].config.dp, 14) << "1,022 = 73 · 14 is 0.2 % away";
}

// All 120 GPUs have to be used, and the power of two leaves deep pipelines only.
TEST(BatchTolerance, AFasterBatchIsNamedWhereAllGpusAreUsed) {
  const ModelShape model = named("llama3-8b");
  SearchSpace space = space_of(120, 1024, 8192);
  space.host = host_of(8, "h100-80g");
  space.keep = 1;
  space.explain_idle = true;
  const auto strict = search(model, space);
  ASSERT_TRUE(strict.ok() && !strict->best.empty()) << strict.status();
  for (const char* part :
       {" % less time for as many samples, but dp ", "does not divide the batch of 1024", "(with batch_tolerance 0.0"})
    EXPECT_NE(strict->idle.find(part), std::string::npos) << strict->idle;
  space.batch_tolerance = 0.05;
  const auto tolerant = search(model, space);
  ASSERT_TRUE(tolerant.ok() && !tolerant->best.empty());
  EXPECT_LT(even_step_s(space, tolerant->best[0]), 0.9 * even_step_s(space, strict->best[0]));
  EXPECT_EQ(tolerant->idle, "");
  space = space_of(128, 1024, 8192);
  space.host = host_of(8, "h100-80g");
  space.explain_idle = true;
  const auto even = search(model, space);
  ASSERT_TRUE(even.ok());
  EXPECT_EQ(even->idle, "") << "every layout divides";
}

TEST(BatchTolerance, TheNearestMultipleIsTaken) {
  SearchSpace space = space_of(8, 100, 1024);
  const auto batch = [&](const internal::Point& point, double tolerance) {
    space.batch_tolerance = tolerance;
    return internal::batch_of(point, space);
  };
  EXPECT_EQ(batch({.dp = 5, .micro_batch = 4}, 0), 100);
  EXPECT_EQ(batch({.dp = 3}, 0), 0);
  EXPECT_EQ(batch({.dp = 3}, 0.01), 0) << "99 is 1 % away, and it has to be less";
  EXPECT_EQ(batch({.dp = 3}, 0.011), 99);
  EXPECT_EQ(batch({.dp = 17}, 0.021), 102) << "85 is further";
  EXPECT_EQ(batch({.dp = 8}, 0.5), 96) << "104 is as near: the smaller one";
  EXPECT_EQ(batch({.dp = 120}, 0.5), 120);
  EXPECT_EQ(batch({.pp = 3, .dp = 2, .vpp = 2}, 0.1), 102) << "interleaved: micro-batches by pp";
  space.base.whole_batches = false;
  EXPECT_EQ(batch({.dp = 3}, 0), 100) << "nothing has to divide";
}

// A step of 1,020 samples that takes 2 s is no faster than one of 1,024 that takes 2 · 1024 / 1020 s.
TEST(BatchTolerance, ScoresAreForTheSameNumberOfSamples) {
  SearchSpace space = without_a_host();
  const Hardware hardware = uniform_hardware(space.host, {.tp = 8, .dp = 15});
  Candidate candidate{.config = {.tp = 8, .dp = 15}, .training = space.base};
  candidate.time.step_s = 2;
  EXPECT_DOUBLE_EQ(score_of(space, candidate, hardware), 2);
  candidate.training.global_batch = 1020;
  EXPECT_DOUBLE_EQ(score_of(space, candidate, hardware), 2 * 1024 / 1020.0);
}

TEST(IdleGpus, HaveAReason) {
  const ModelShape model = named("gpt3-xl");
  SearchSpace space = without_a_host();
  space.gpus = 64;
  EXPECT_EQ(search(model, space)->idle, "");
  space.gpus = 65;
  EXPECT_EQ(search(model, space)->idle, "64 of 65 GPUs: no valid layout of 65");
  space.gpus = 128;
  space.objective = Objective::kCost;
  EXPECT_THAT(search(model, space)->idle, HasSubstr("are no better by cost, or do not fit"));
  space.explain_idle = false;
  EXPECT_EQ(search(model, space)->idle, "");
}

TEST(IdleGpus, ToleranceOutOfRangeIsRefused) {
  SearchSpace space = without_a_host();
  for (const double tolerance : {-0.1, 1.0}) {
    space.batch_tolerance = tolerance;
    EXPECT_FALSE(search(named("gpt3-xl"), space).ok()) << tolerance;
  }
  space.batch_tolerance = 0.1;
  space.base.whole_batches = false;
  EXPECT_THAT(search(named("gpt3-xl"), space).status().message(), HasSubstr("nothing needs to divide"));
}

}  // namespace
}  // namespace scalai::step
