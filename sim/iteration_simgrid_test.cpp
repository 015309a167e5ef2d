// The same iterations on SimGrid and on our solver. A process has one SimGrid engine: all jobs share a cluster and
// train one after the other, or together.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/internal/iteration_engine.h"
#include "sim/simgrid_backend.h"
#include "sim/testing/iteration_fixture.h"

namespace scalai::sim {
namespace {

using step::Communication;
using step::Schedule;
using step::StageWork;
using step::StepParts;
using testing::devices_from;
using testing::layout;

struct Job {
  collection::ParallelConfig config;
  Schedule schedule = Schedule::kOneFOneB;
  StepParts parts;
  std::vector<DeviceId> devices;
};

cluster::Cluster cluster() {
  cluster::Cluster made = testing::cluster_of("h100-80g", 4, {.gpus = 4, .nics = 2, .nic_bytes_per_s = 40e9});
  made.fabric = cluster::FabricKind::kLeafSpine;
  made.leaf_hosts = 2;
  made.oversubscription = 2;
  return made;
}

Job job_on(const std::string& layout_name, Schedule schedule, int first_device) {
  Job job{.config = layout(layout_name), .schedule = schedule, .parts = {}, .devices = {}};
  job.devices = devices_from(first_device, job.config.world());
  job.parts = testing::plain_parts(job.config, 2 * job.config.pp, 0.011, 0.023);
  job.parts.gradients_hidden = job.parts.parameters_hidden = 0.75;
  const auto over = [](Communication::Link link, double bytes) {
    return Communication{.link = link, .latency_s = 3e-5, .bytes = bytes, .seconds = 1};
  };
  for (StageWork& stage : job.parts.stages) {
    for (auto* chunks : {&stage.forward, &stage.backward}) {
      for (step::ChunkWork& chunk : *chunks) {
        if (job.config.tp > 1) chunk.tp = over(Communication::Link::kGpuLink, 1.3e9);
        if (job.config.cp > 1) chunk.cp = over(Communication::Link::kNetwork, 0.2e9);
      }
    }
    if (job.config.pp > 1) stage.send = over(Communication::Link::kNetwork, 0.1e9);
    if (job.config.dp > 1) stage.gradients = over(Communication::Link::kNetwork, 2.1e9);
    if (job.config.dp > 1) stage.parameters = over(Communication::Link::kNetwork, 0.9e9);
    stage.optimizer_s = 0.007;
  }
  return job;
}

// Jobs that train together, by group.
std::vector<std::vector<Job>> groups() {
  std::vector<std::vector<Job>> made;
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kTwoBW}) {
    made.push_back({job_on("tp4,dp4", schedule, 0)});
    made.push_back({job_on("tp2,pp4,dp2", schedule, 0)});
    made.push_back({job_on("tp2,pp2,dp2,cp2,vpp2", schedule, 0)});
    made.push_back({job_on("dp16", schedule, 0)});
    made.push_back({job_on("dp6", schedule, 0), job_on("tp2,pp2,dp2", schedule, 6)});
  }
  return made;
}

std::vector<IterationJob> views_of(const std::vector<Job>& jobs) {
  std::vector<IterationJob> views;
  for (const Job& job : jobs) {
    views.push_back({.config = job.config, .schedule = job.schedule, .devices = job.devices, .parts = {&job.parts, 1}});
  }
  return views;
}

// Step times without folding and extrapolation.
std::vector<double> iterations_on(change::NetworkBackend& network, const change::Platform& platform,
                                  const std::vector<IterationJob>& jobs) {
  const IterationGraph graph = graph_of(platform, jobs);
  return IterationEngine(network, graph, jobs, {}).run().step_s;
}

TEST(IterationOnSimGrid, IsTheSameAsOnOurSolver) {
  const cluster::Cluster four_hosts = cluster();
  const change::Platform platform(four_hosts);
  const std::vector<std::vector<Job>> all = groups();
  std::vector<std::vector<double>> on_simgrid;
  const absl::Status status =
      with_backend(BackendKind::kSimGrid, platform.spec(), [&](change::NetworkBackend& network) {
        for (const std::vector<Job>& jobs : all) {
          on_simgrid.push_back(iterations_on(network, platform, views_of(jobs)));
        }
      });
  ASSERT_TRUE(status.ok()) << message_of(status);
  ASSERT_EQ(on_simgrid.size(), all.size());
  for (size_t group = 0; group < all.size(); ++group) {
    const std::vector<double> ours = simulate_iterations(platform, {}, views_of(all[group])).step_s;
    for (size_t job = 0; job < ours.size(); ++job) {
      EXPECT_NEAR(on_simgrid[group][job] / ours[job], 1, 1e-6)
          << collection::canonical(all[group][job].config) << " " << name_of(all[group][job].schedule);
    }
  }
}

}  // namespace
}  // namespace scalai::sim
