#include "ptc/cost/step/internal/search_space.h"

#include <gtest/gtest.h>

#include "ptc/cost/step/testing/search.h"

namespace scalai::step {
namespace {

using namespace testing;
using collection::ParallelConfig;

// Two stages of A10G between stages of V100: in fp32 the slower kind by 16-bit peak is the faster one.
TEST(SearchSpace, TheBoundTakesTheFastestKindOfThePrecision) {
  SearchSpace space = space_of(8, 64, 1024);
  space.base.precision = find_precision("fp32").value();
  space.host = host_of(8, "v100-16g");
  const Hardware a10g = uniform_hardware(host_of(8, "a10g-24g"), {.dp = 8});
  space.hardware = [&](const ParallelConfig& config) {
    Hardware hardware = uniform_hardware(space.host, config);
    hardware.stages = a10g.stages;
    return hardware;
  };
  space.host_kinds = {space.host, host_of(8, "a10g-24g")};
  const ModelShape model = named("gpt3-xl");
  const internal::Bound bound(model, space);
  internal::for_each_point(model, space, [&](const internal::Point& point) {
    const ParallelConfig config = config_of(point, space);
    const StepTime time = step_time({model, config, training_of(point, space)}, space.hardware(config));
    EXPECT_GE(time.step_s, bound.of(point).step_s()) << canonical(config);
  });
}

// Faster kernels are in the bound too: else it would rule the best configurations out.
TEST(SearchSpace, TheBoundTakesTheKernelsOfTheJob) {
  SearchSpace space = space_of(8, 64, 1024);
  space.host = host_of(8, "h100-80g");
  space.base.kernels = Kernels::kTuned;
  ModelShape model = named("gpt3-xl");
  model.hidden = 1 << 16;  // products alone count
  model.ffn = 4 << 16;
  const internal::Bound bound(model, space);
  const double work_s = bound.of({.tp = 8}).work_s;
  space.base.kernels = Kernels::kFused;
  EXPECT_NEAR(internal::Bound(model, space).of({.tp = 8}).work_s, 1.16 * work_s, 1e-9 * work_s);
}

}  // namespace
}  // namespace scalai::step
