#include "sim/jobs/planned/model_throughput.h"

#include <gmock/gmock.h>

#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs {
namespace {

using testing::hosts_from;
using testing::Machine;
using testing::World;

TEST(ModelThroughput, IsOneOverTheStep) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-xl", 64);
  const std::unique_ptr<policy::Throughput> throughput = make_model_throughput(*world.configurations);
  const Configuration* best = world.configurations->best(job, policy::GpuType(0), 8);
  EXPECT_EQ(throughput->rate(job, policy::GpuType(0), 8, 0).per_s, 1 / best->step_s);
  EXPECT_EQ(throughput->rate(job, policy::GpuType(0), 8, 50).until_work, policy::kNever);
  EXPECT_EQ(throughput->placed_rate(job, hosts_from(world.cluster, 2, 8), 0).per_s, 1 / best->step_s);
}

TEST(ModelThroughput, IsZeroWhereNothingFits) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-13b", 64);
  const std::unique_ptr<policy::Throughput> throughput = make_model_throughput(*world.configurations);
  EXPECT_EQ(throughput->rate(job, policy::GpuType(0), 1, 0).per_s, 0);
  EXPECT_EQ(throughput->placed_rate(job, hosts_from(world.cluster, 0, 1), 0).per_s, 0);
  EXPECT_EQ(throughput->shared_rate(job, job, policy::GpuType(0), 8), (std::pair<double, double>{0, 0}));
}

TEST(ModelThroughput, SaysWhatItIs) {
  World world(Machine{.hosts = 2});
  world.add("gpt3-xl", 64);
  EXPECT_THAT(make_model_throughput(*world.configurations)->description(),
              ::testing::AllOf(::testing::HasSubstr("the parallelizer's model"), ::testing::HasSubstr("batch 64")));
}

}  // namespace
}  // namespace scalai::jobs
