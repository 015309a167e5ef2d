#include "sim/jobs/recovery/parcae_costs.h"

#include "gtest/gtest.h"

namespace scalai::jobs {
namespace {

// One of Parcae's: to restart GPT 1.5B as 4 x 8 after growth takes 6.6 + 0.035 + 45 x 0.5 + 0.24 s and the build.
TEST(ParcaeCosts, OfGpt) {
  auto costs = parcae_costs("gpt-1.5b");
  ASSERT_TRUE(costs.ok());
  costs->samples_per_s = {{{4, 8}, 43.468}};
  const double build_s = costs->build_s.at(8);
  EXPECT_NEAR(build_s, 0.2348 + 0.43 * 6, 1e-9);
  EXPECT_NEAR(Liveput(*costs, 60).restart_s({4, 8}, true), 6.6 + 0.035 + 22.5 + 0.24 + build_s, 1e-9);
  for (const char* model : {"gpt-6.7b", "bert", "resnet152", "vgg19"}) EXPECT_TRUE(parcae_costs(model).ok()) << model;
  EXPECT_FALSE(parcae_costs("GPT-5").ok());
}

}  // namespace
}  // namespace scalai::jobs
