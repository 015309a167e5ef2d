#include "sim/jobs/planned/configurations.h"

#include <gtest/gtest.h>

#include "ptc/cost/step/devices.h"
#include "ptc/cost/step/software.h"
#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs {
namespace {

using testing::hosts_from;
using testing::Machine;
using testing::World;

TEST(Configurations, IsTheSearchsBest) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-2.7b", 64);
  const Configuration* best = world.configurations->best(job, policy::GpuType(0), 8);
  ASSERT_NE(best, nullptr);
  const JobModel& model = world.models.model_of(job);
  step::SearchSpace space{.gpus = 8, .all_gpus = false, .host = world.cluster.hosts[0], .base = model.training};
  ASSERT_TRUE(step::train_with("", space.host.gpu.name, model.shape, space.base).ok());
  const step::SearchResult found = step::search(model.shape, space).value();
  EXPECT_EQ(best->config, found.best.front().config);
  EXPECT_EQ(best->step_s, found.best.front().time.step_s);
  EXPECT_EQ(best->training.micro_batch, found.best.front().training.micro_batch);
}

TEST(Configurations, AreLookedUpOnce) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-xl", 64);
  const Configuration* first = world.configurations->best(job, policy::GpuType(0), 8);
  EXPECT_EQ(world.configurations->best(job, hosts_from(world.cluster, 1, 8)), first);  // as many on as few hosts
  EXPECT_EQ(world.configurations->searches(), 1);
  policy::Placement spread{.type = policy::GpuType(0), .hosts = {{HostId(0), 2}, {HostId(2), 2}, {HostId(3), 4}}};
  const Configuration* other = world.configurations->best(job, spread);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other, first);
  std::swap(spread.hosts[0].gpus, spread.hosts[2].gpus);
  EXPECT_EQ(world.configurations->best(job, spread), other);
  EXPECT_EQ(world.configurations->searches(), 2);
  EXPECT_GE(other->step_s, first->step_s * (1 - 1e-12));
}

TEST(Configurations, MoreGpusAreNeverSlower) {
  World world(Machine{.hosts = 8});
  const policy::Job job = world.add("gpt3-2.7b", 48);
  double last_s = 1e9;
  for (int gpus = 1; gpus <= 32; ++gpus) {
    const Configuration* best = world.configurations->best(job, policy::GpuType(0), gpus);
    if (best == nullptr) continue;
    EXPECT_LE(best->gpus(), gpus);
    EXPECT_LE(best->step_s, last_s) << gpus;
    last_s = best->step_s;
  }
}

TEST(Configurations, NothingFitsTooFewGpus) {
  World world(Machine{.hosts = 8});
  const policy::Job job = world.add("gpt3-13b", 64);
  EXPECT_EQ(world.configurations->best(job, policy::GpuType(0), 1), nullptr);
  EXPECT_NE(world.configurations->best(job, policy::GpuType(0), 32), nullptr);
}

// Two hosts of one NVLink domain, or of two: the same number of GPUs on as many hosts.
TEST(Configurations, DomainsOfAPlacementCount) {
  cluster::Cluster cluster = testing::cluster_of({.hosts = 4, .nics = 1, .nic_bytes_per_s = 1e9});
  for (size_t h = 0; h < 4; ++h) {
    cluster.hosts[h].nvlink_hosts = 2;
    cluster.hosts[h].nvlink_domain = static_cast<int>(h / 2);
  }
  World world(cluster);
  const policy::Job job = world.add("gpt3-2.7b", 64);
  const int gpus = cluster.hosts[0].gpus;
  const auto on = [&](int a, int b) {
    return world.configurations->best(job,
                                      {.type = policy::GpuType(0), .hosts = {{HostId(a), gpus}, {HostId(b), gpus}}});
  };
  ASSERT_NE(on(0, 1), nullptr);
  EXPECT_LT(on(0, 1)->step_s, 0.9 * on(0, 2)->step_s);
  EXPECT_EQ(on(2, 3), on(0, 1));
  EXPECT_EQ(on(1, 3), on(0, 2));
  EXPECT_EQ(world.configurations->best(job, policy::GpuType(0), 2 * gpus), on(0, 1)) << "domains are filled";
}

// Half the NICs' rate behind the leaves: what crosses them takes longer.
TEST(Configurations, ANarrowFabricCounts) {
  cluster::Cluster cluster = testing::cluster_of({.hosts = 8, .nics = 1, .nic_bytes_per_s = 5e9});
  cluster.fabric = cluster::FabricKind::kLeafSpine;
  cluster.leaf_hosts = 2;
  World wide(cluster);
  cluster.oversubscription = 8;
  World narrow(cluster);
  const policy::Job job = wide.add("gpt3-2.7b", 64);
  narrow.add("gpt3-2.7b", 64);
  EXPECT_GT(narrow.configurations->best(job, policy::GpuType(0), 32)->step_s,
            wide.configurations->best(job, policy::GpuType(0), 32)->step_s);
}

// A step-time model that doubles the closed form.
class Doubled : public step::AnalyticStepTime {
 public:
  std::vector<double> steps_s(std::span<const step::StepInput> together) const override {
    std::vector<double> steps = AnalyticStepTime::steps_s(together);
    for (double& step : steps) step *= 2;
    ++asked;
    return steps;
  }
  mutable int asked = 0;
};

TEST(Configurations, AStepTimeModelPricesTheChoice) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-xl", 64);
  const Doubled doubled;
  const Configurations priced(world.cluster, world.fleet, world.models, &doubled);
  const Configuration* plain = world.configurations->best(job, policy::GpuType(0), 16);
  const Configuration* best = priced.best(job, policy::GpuType(0), 16);
  EXPECT_EQ(best->config, plain->config);
  EXPECT_NEAR(best->step_s, 2 * plain->step_s, 1e-9 * plain->step_s);
  EXPECT_EQ(priced.best(job, policy::GpuType(0), 16), best);
  EXPECT_EQ(doubled.asked, 1);
}

TEST(Configurations, ScratchHostsAreOfTheType) {
  World world(Machine{.hosts = 3});
  const policy::Job job = world.add("gpt2", 8);
  const Configurations::Scratch scratch = world.configurations->scratch(policy::GpuType(0), {4, 2});
  ASSERT_EQ(scratch.cluster.hosts.size(), 2U);
  EXPECT_EQ(scratch.devices,
            (std::vector<DeviceId>{DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3), DeviceId(4), DeviceId(5)}));
  EXPECT_EQ(scratch.cluster.hosts[1].gpu, world.cluster.hosts[0].gpu);
}

}  // namespace
}  // namespace scalai::jobs
