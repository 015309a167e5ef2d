#include "ptc/cost/step/internal/layer_kernels.h"

#include <gtest/gtest.h>

#include "ptc/cost/step/testing/step.h"

namespace scalai::step {
namespace layer_kernels_test {

using internal::Context;

// What a context refers to.
struct Case {
  ModelShape model = test_gpt(8192, 64);
  collection::ParallelConfig config;
  Training training = test_training(4);
  Hardware hardware;
};

TEST(LayerKernels, ANormReadsAndWritesEachElement) {
  Case one;
  const Workload workload{one.model, one.config, one.training};
  one.hardware = uniform_hardware(test_host(), one.config);
  const Context c(workload, one.hardware, one.hardware.stage(0));
  KernelTime forward(c.rates), backward(c.rates);
  internal::norm_forward(c, forward);
  internal::norm_backward(c, backward);
  const double elements = 4 * 2048 * 8192.0;
  EXPECT_NEAR(forward.memory_s(), 2 * 2 * elements / c.rates.bytes_per_s, 1e-12);
  EXPECT_NEAR(backward.memory_s(), 5 * 2 * elements / c.rates.bytes_per_s, 1e-12);
}

TEST(LayerKernels, SequenceParallelismDividesWhatLiesBetweenTheParallelRegions) {
  Case one;
  one.config.tp = 4;
  const Workload workload{one.model, one.config, one.training};
  one.hardware = uniform_hardware(test_host(), one.config);
  const Context c(workload, one.hardware, one.hardware.stage(0));
  EXPECT_EQ(c.outside, c.tokens / 4);
  const internal::Core core(c);
  EXPECT_EQ(core.heads, 16);
  one.training.sequence_parallel = false;
  EXPECT_EQ(Context(workload, one.hardware, one.hardware.stage(0)).outside, c.tokens);
}

TEST(LayerKernels, OnlyFp8CastsItsOperands) {
  Case one;
  const Workload workload{one.model, one.config, one.training};
  one.hardware = uniform_hardware(test_host("h100-80g"), one.config);
  const Context sixteen(workload, one.hardware, one.hardware.stage(0));
  KernelTime none(sixteen.rates);
  internal::cast(sixteen, 1e9, none);
  EXPECT_EQ(none.seconds(), 0);
  one.training.precision = find_precision("fp8").value();
  const Context eight(workload, one.hardware, one.hardware.stage(0));
  KernelTime some(eight.rates);
  internal::cast(eight, 1e9, some);
  EXPECT_NEAR(some.memory_s(), (2 + 2) * 1e9 / eight.rates.bytes_per_s, 1e-12);
}

}  // namespace layer_kernels_test
}  // namespace scalai::step
