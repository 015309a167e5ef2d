#include "sim/jobs/planned/training_traffic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/step_time.h"
#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs {
namespace {

using testing::Machine;
using testing::World;

std::vector<DeviceId> first_devices(int count) {
  std::vector<DeviceId> devices;
  for (int d = 0; d < count; ++d) devices.emplace_back(d);
  return devices;
}

Configuration configured(const JobModel& model, const std::string& layout, const World& world) {
  Configuration made{.model = &model, .config = collection::parse_layout(layout).value(), .training = model.training};
  made.time = step::step_time({model.shape, made.config, made.training},
                              step::hardware_of(world.cluster, made.config, first_devices(made.gpus())));
  made.step_s = made.time.step_s;
  return made;
}

TEST(TrainingTraffic, InsideAHostThereIsNone) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-xl", 64);
  const Configuration one = configured(world.models.model_of(job), "tp4", world);
  EXPECT_EQ(training_traffic(one, first_devices(4), world.cluster).traffic, nullptr);
}

// Two replicas of tp 4: each GPU sums its gradients with the one in its place on the other host, and gathers
// parameters.
TEST(TrainingTraffic, GradientsGoToTheNextReplica) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-xl", 64);
  const Configuration two = configured(world.models.model_of(job), "tp4,dp2,zero1", world);
  const JobTraffic sent = training_traffic(two, first_devices(8), world.cluster);
  ASSERT_NE(sent.traffic, nullptr);
  EXPECT_EQ(sent.hosts, (std::vector<HostId>{HostId(0), HostId(1)}));
  ASSERT_EQ(sent.traffic->flows.size(), 8U);
  const step::StepParts parts = step::step_parts({two.model->shape, two.config, two.training},
                                                 step::hardware_of(world.cluster, two.config, first_devices(8)));
  const step::StageWork& stage = parts.stages.front();
  for (const TrainingTraffic::Flow& flow : sent.traffic->flows) {
    EXPECT_EQ(flow.src.gpu, flow.dst.gpu);
    EXPECT_NE(flow.src.host, flow.dst.host);
    EXPECT_NEAR(flow.bytes, stage.gradients.bytes + stage.parameters.bytes, 1);
    EXPECT_NEAR(flow.bytes_per_s, flow.bytes / (stage.gradients.seconds + stage.parameters.seconds), 1);
    EXPECT_LE(flow.bytes_per_s, 25e9 * 1.0001);
  }
  EXPECT_EQ(sent.traffic->step_s, two.step_s);
  EXPECT_NEAR(sent.traffic->exposed_s, two.time.gradients_s, 1e-12);
}

// Two stages on two hosts: a message a micro-batch each way. Gradients stay on their host.
TEST(TrainingTraffic, MessagesGoBothWays) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-xl", 64);
  const Configuration piped = configured(world.models.model_of(job), "tp4,pp2", world);
  const JobTraffic sent = training_traffic(piped, first_devices(8), world.cluster);
  ASSERT_NE(sent.traffic, nullptr);
  const step::StepParts parts = step::step_parts({piped.model->shape, piped.config, piped.training},
                                                 step::hardware_of(world.cluster, piped.config, first_devices(8)));
  ASSERT_EQ(parts.stages.front().send.link, step::Communication::Link::kNetwork);
  ASSERT_EQ(sent.traffic->flows.size(), 8U);
  const double bytes = parts.stages.front().send.bytes * parts.micro_batches;
  double embedding = 0;  // tied: both ends add up, over the network too
  if (parts.stages.front().embedding.link == step::Communication::Link::kNetwork)
    embedding = parts.stages.front().embedding.bytes;
  for (const TrainingTraffic::Flow& flow : sent.traffic->flows) EXPECT_NEAR(flow.bytes, bytes + embedding, 1);
  EXPECT_GE(sent.traffic->exposed_s, piped.time.pipeline_s);
}

// A tied embedding is summed by the first and the last stage, which are not neighbours here.
TEST(TrainingTraffic, BothEndsSumTheirEmbedding) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-xl", 64);
  const Configuration piped = configured(world.models.model_of(job), "tp4,pp4", world);
  const JobTraffic sent = training_traffic(piped, first_devices(16), world.cluster);
  std::map<std::pair<int, int>, int> ways;
  for (const TrainingTraffic::Flow& flow : sent.traffic->flows) ++ways[{flow.src.host, flow.dst.host}];
  EXPECT_EQ(
      ways,
      (std::map<std::pair<int, int>, int>{
          {{0, 1}, 4}, {{1, 0}, 4}, {{1, 2}, 4}, {{2, 1}, 4}, {{2, 3}, 4}, {{3, 2}, 4}, {{0, 3}, 4}, {{3, 0}, 4}}));
  const step::StepParts parts = step::step_parts({piped.model->shape, piped.config, piped.training},
                                                 step::hardware_of(world.cluster, piped.config, first_devices(16)));
  for (const TrainingTraffic::Flow& flow : sent.traffic->flows) {
    const double bytes = std::abs(flow.src.host - flow.dst.host) == 3
                             ? parts.stages.front().embedding.bytes
                             : parts.stages[1].send.bytes * parts.micro_batches;
    EXPECT_NEAR(flow.bytes, bytes, 1);
  }
}

// Four replicas on four hosts are a ring: each host sends to one and receives from one.
TEST(TrainingTraffic, AGroupIsARing) {
  World world(Machine{.hosts = 4});
  const policy::Job job = world.add("gpt3-xl", 64);
  const Configuration four = configured(world.models.model_of(job), "tp4,dp4,zero1", world);
  const JobTraffic sent = training_traffic(four, first_devices(16), world.cluster);
  std::map<int, int> out, in;
  for (const TrainingTraffic::Flow& flow : sent.traffic->flows) {
    ++out[flow.src.host];
    ++in[flow.dst.host];
    EXPECT_EQ(flow.dst.host, (flow.src.host + 1) % 4);
  }
  for (int host = 0; host < 4; ++host) {
    EXPECT_EQ(out[host], 4);
    EXPECT_EQ(in[host], 4);
  }
}

}  // namespace
}  // namespace scalai::jobs
