#include "ptc/cost/step/step_time_model.h"

#include <gtest/gtest.h>

#include "ptc/cost/step/testing/step.h"

namespace scalai::step {
namespace {

TEST(StepTimeModel, EachJobIsPricedByItself) {
  cluster::Cluster cluster;
  for (int h = 0; h < 2; ++h) {
    cluster.hosts.push_back(test_host());
    cluster.hosts.back().first_device = 8 * h;
  }
  const ModelShape model = test_gpt(4096, 32);
  const Training training = test_training(1);
  collection::ParallelConfig config;
  config.tp = 4;
  config.dp = 2;
  std::vector<DeviceId> first, second;
  for (int i = 0; i < 8; ++i) {
    first.emplace_back(i);
    second.emplace_back(8 + i);
  }
  const std::map<DeviceId, double> none, slow = {{DeviceId(9), 0.5}};
  const std::map<std::string, double> links;
  const StepInput one{model, config, training, cluster, first, none, links};
  const StepInput other{model, config, training, cluster, second, slow, links};
  const std::vector<StepInput> both = {one, other};
  const std::vector<double> seconds = AnalyticStepTime().steps_s(both);
  ASSERT_EQ(seconds.size(), 2u);
  const double expected = step_time({model, config, training}, uniform_hardware(test_host(), config)).step_s;
  EXPECT_NEAR(seconds[0], expected, 1e-12);
  EXPECT_GT(seconds[1], 1.5 * expected);
  EXPECT_EQ(AnalyticStepTime().steps_s({&both[1], 1})[0], seconds[1]);
}

// In FP8, which only an L40S has, an A100 is the slower one; in 16 bits it is the other way round.
TEST(StepTimeModel, MixedStagesArePricedInTheJobsMathAndUtiliseAllTheirGpus) {
  cluster::Cluster cluster;
  for (int h = 0; h < 2; ++h) {
    cluster.hosts.push_back(test_host(h == 0 ? "a100-80g" : "l40s-48g"));
    cluster.hosts.back().first_device = 8 * h;
  }
  const ModelShape model = test_gpt(4096, 32);
  Training training = test_training(1);
  training.precision = find_precision("fp8").value();
  collection::ParallelConfig config;
  config.tp = 8;
  config.dp = 2;
  std::vector<DeviceId> devices;
  for (int i = 0; i < 16; ++i) devices.emplace_back(i);
  const std::map<DeviceId, double> none;
  const std::map<std::string, double> links;
  const StepInput job{model, config, training, cluster, devices, none, links};
  const auto priced = [&](Math math) {
    return step_time({model, config, training}, hardware_of(cluster, config, devices, none, math));
  };
  const StepTime fp8 = priced(Math::kFP8);
  EXPECT_DOUBLE_EQ(AnalyticStepTime().steps_s({&job, 1})[0], fp8.step_s);
  EXPECT_NE(fp8.step_s, priced(Math::kBF16).step_s);
  const double peak =
      8 * peak_flops(cluster.hosts[0].gpu, Math::kFP8) + 8 * peak_flops(cluster.hosts[1].gpu, Math::kFP8);
  EXPECT_NEAR(fp8.mfu, fp8.model_flops / (fp8.step_s * peak), 1e-12);
}

}  // namespace
}  // namespace scalai::step
