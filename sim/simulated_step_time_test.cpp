#include "sim/simulated_step_time.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/testing/iteration_fixture.h"

namespace scalai::sim {
namespace {

using step::Schedule;
using step::StepInput;
using step::Training;
using testing::cluster_of;
using testing::devices_from;
using testing::HostSizes;
using testing::Trained;
using testing::trained;

Training training(int global_batch, int micro_batch, int sequence, Schedule schedule = Schedule::kOneFOneB) {
  return {.global_batch = global_batch, .micro_batch = micro_batch, .sequence = sequence, .schedule = schedule};
}

double simulated_s(const Trained& job, const cluster::Cluster& cluster) {
  const StepInput input = job.on(cluster);
  return SimulatedStepTime().steps_s({&input, 1}).front();
}

double analytic_s(const Trained& job, const cluster::Cluster& cluster) {
  const StepInput input = job.on(cluster);
  return step::AnalyticStepTime().steps_s({&input, 1}).front();
}

struct Case {
  std::string model, gpu, layout;
  Training training;
  HostSizes host = {};
};

constexpr HostSizes kDgxA100 = {.gpus = 8, .nics = 8, .nic_bytes_per_s = 25e9};
constexpr HostSizes kV100 = {.gpus = 8, .nics = 4, .nic_bytes_per_s = 12.5e9};
constexpr HostSizes kOneNic = {.gpus = 8, .nics = 1, .nic_bytes_per_s = 12.5e9};
constexpr HostSizes kFourGpus = {.gpus = 4, .nics = 1, .nic_bytes_per_s = 12.5e9};

std::vector<Case> cases() {
  return {
      {"gpt3-2.7b", "a100-80g", "dp8", training(64, 4, 2048), kDgxA100},
      {"gpt3-2.7b", "a100-80g", "dp16,zero1", training(64, 4, 2048), kDgxA100},
      {"gpt3-2.7b", "a100-80g", "tp2,pp2,dp4", training(64, 2, 2048), kDgxA100},
      {"gpt3-6.7b", "a100-80g", "tp4,pp4,dp2", training(64, 1, 2048), kDgxA100},
      {"gpt3-6.7b", "a100-80g", "tp4,pp4,dp2", training(64, 1, 2048, Schedule::kGPipe), kDgxA100},
      {"gpt3-6.7b", "a100-80g", "tp4,pp4,dp2,vpp2", training(64, 1, 2048), kDgxA100},
      {"gpt3-6.7b", "a100-80g", "tp4,pp4,dp2", training(64, 1, 2048, Schedule::kTwoBW), kDgxA100},
      {"gpt3-175b", "a100-80g", "tp8,pp16,dp2", training(128, 1, 2048), kDgxA100},
      {"gpt3-175b", "a100-80g", "tp8,pp8,dp2,vpp4", training(128, 1, 2048), kDgxA100},
      {"llama3-8b", "h100-80g", "dp8,zero1", training(128, 1, 8192)},
      {"llama3-8b", "h100-80g", "dp8,cp2,zero1", training(128, 1, 8192)},
      {"llama3-8b", "h100-80g", "tp2,pp2,dp8,zero1", training(128, 1, 8192)},
      {"llama3-70b", "h100-80g", "tp8,pp4,dp2,zero1", training(128, 1, 8192)},
      {"llama3-70b", "h100-80g", "tp8,pp4,dp2,zero1,vpp5", training(128, 1, 8192)},
      {"llama3-70b", "h100-80g", "tp4,pp4,dp4,zero1", training(128, 1, 8192)},
      {"llama3-70b", "h100-80g", "tp4,pp4,dp4,zero1", training(128, 1, 8192, Schedule::kGPipe)},
      {"llama3-70b", "h100-80g", "tp8,pp2,dp8,zero1", training(128, 1, 8192)},
      {"llama3-70b", "h100-80g", "tp8,dp8,zero3", training(64, 1, 8192)},
      {"mixtral-8x7b", "h100-80g", "tp2,pp4,dp8,ep8", training(128, 1, 4096)},
      {"mixtral-8x7b", "h100-80g", "tp8,pp2,ep4,etp1", training(64, 1, 4096)},
      {"mixtral-8x7b", "h100-80g", "tp4,dp4,ep8,etp2", training(64, 1, 4096)},
      {"gpt3-6.7b", "v100-32g", "tp2,pp8,dp4", training(64, 1, 2048), kV100},
      {"gpt3-6.7b", "v100-32g", "tp8,dp8", training(64, 1, 2048), kOneNic},
      {"gpt3-6.7b", "v100-32g", "pp8,dp8", training(64, 1, 2048), kOneNic},
      {"llama3-405b", "h100-80g", "tp8,pp16,dp4,zero1", training(64, 1, 8192)},
      {"llama3-405b", "h100-80g", "tp8,pp16,dp4,zero1", training(256, 1, 8192)},
      // One of seven hops leaves its host, a single GPU on each NIC.
      {"gpt3-6.7b", "v100-32g", "pp8", training(16, 1, 2048), kFourGpus},
      {"gpt3-6.7b", "v100-32g", "pp8", training(16, 1, 2048, Schedule::kGPipe), kFourGpus},
      {"gpt3-6.7b", "v100-32g", "pp8", training(16, 1, 2048, Schedule::kTwoBW), kFourGpus},
      {"gpt3-6.7b", "v100-32g", "pp8,vpp2", training(16, 1, 2048), kFourGpus},
      {"gpt3-6.7b", "v100-32g", "tp2,pp8", training(16, 1, 2048), kFourGpus},
      {"gpt3-13b", "a100-40g", "tp2,pp8,zero1", training(64, 1, 2048), kFourGpus},
  };
}

TEST(SimulatedStepTime, AgreesWithTheClosedFormWhereNothingContends) {
  EXPECT_GE(cases().size(), 20u);
  double worst = 0;
  for (const Case& one : cases()) {
    const Trained job = trained(one.model, one.layout, one.training);
    const int hosts = (job.config.world() + one.host.gpus - 1) / one.host.gpus;
    const cluster::Cluster cluster = cluster_of(one.gpu, hosts, one.host);
    const double error = simulated_s(job, cluster) / analytic_s(job, cluster) - 1;
    EXPECT_LE(std::abs(error), 0.02) << fmt::format("{} {} {} {}: {:+.2f} %", one.model, one.gpu, one.layout,
                                                    name_of(one.training.schedule), 100 * error);
    worst = std::max(worst, std::abs(error));
  }
  fmt::print(stderr, "{} cases, worst {:.2f} % apart\n", cases().size(), 100 * worst);
}

// Twice 8 GPUs on one leaf each, half of them on the other: gradients cross an oversubscribed spine.
cluster::Cluster two_leaves() {
  cluster::Cluster cluster = cluster_of("h100-80g", 4);
  cluster.fabric = cluster::FabricKind::kLeafSpine;
  cluster.leaf_hosts = 2;
  cluster.oversubscription = 8;
  return cluster;
}

std::vector<DeviceId> hosts_of(int a, int b) {
  std::vector<DeviceId> devices = devices_from(8 * a, 8);
  for (const DeviceId device : devices_from(8 * b, 8)) devices.push_back(device);
  return devices;
}

TEST(SimulatedStepTime, JobsSlowEachOtherOnASharedFabricOnly) {
  const cluster::Cluster cluster = two_leaves();
  Trained first = trained("llama3-8b", "dp16,zero1", training(32, 1, 2048)), second = first;
  first.devices = hosts_of(0, 2);
  second.devices = hosts_of(1, 3);
  const SimulatedStepTime model;
  const auto together = [&] {
    const std::vector<StepInput> jobs = {first.on(cluster), second.on(cluster)};
    return model.steps_s(jobs);
  };
  const double alone = simulated_s(first, cluster);
  for (const double step_s : together()) EXPECT_GT(step_s, 1.1 * alone);
  first.devices = hosts_of(0, 1);
  second.devices = hosts_of(2, 3);
  const double inside = simulated_s(first, cluster);
  EXPECT_LT(inside, alone);
  for (const double step_s : together()) EXPECT_NEAR(step_s / inside, 1, 1e-9);
}

TEST(SimulatedStepTime, PodsAndGroupsAreCrossedOrNot) {
  cluster::Cluster cluster = two_leaves();  // of two hosts; now they are pods
  cluster.oversubscription = 1;
  cluster.group_hosts = 2;
  cluster.group_oversubscription = 8;
  Trained job = trained("llama3-8b", "dp16,zero1", training(32, 1, 2048));
  for (const cluster::FabricKind kind : {cluster::FabricKind::kFatTree, cluster::FabricKind::kDragonfly}) {
    cluster.fabric = kind;
    cluster.leaf_hosts = 1;
    job.devices = hosts_of(0, 1);
    const double inside = simulated_s(job, cluster);
    job.devices = hosts_of(1, 2);
    const double across = simulated_s(job, cluster);
    EXPECT_GT(across, 1.1 * inside);
    job.links = {{kind == cluster::FabricKind::kFatTree ? "pod1.down" : "group1.down", 0.5}};
    EXPECT_GT(simulated_s(job, cluster), across);
    job.links = {{kind == cluster::FabricKind::kFatTree ? "pod7.down" : "group7.down", 0}};
    EXPECT_EQ(simulated_s(job, cluster), across);
    job.links.clear();
  }
}

// Two hosts with one set of GPU links: the gradients of dp 2 go over them, in both models.
TEST(SimulatedStepTime, AnNvlinkDomainIsOneHost) {
  cluster::Cluster cluster = cluster_of("h100-80g", 4);
  for (cluster::Host& host : cluster.hosts) host.nic_bytes_per_s /= 20;
  const Trained job = trained("llama3-8b", "tp8,dp2,zero1", training(32, 1, 2048));
  const auto closed = [&] {
    const StepInput input = job.on(cluster);
    return step::AnalyticStepTime().steps_s({&input, 1}).front();
  };
  const double apart = simulated_s(job, cluster), closed_apart = closed();
  for (size_t h = 0; h < 4; ++h) cluster.hosts[h].nvlink_domain = static_cast<int>(h / 2);
  EXPECT_LT(simulated_s(job, cluster), 0.9 * apart);
  EXPECT_LT(closed(), 0.9 * closed_apart);
  EXPECT_NEAR(simulated_s(job, cluster) / closed(), 1, 0.03);
}

TEST(SimulatedStepTime, AStragglerSlowsAllByWhatItLacks) {
  const cluster::Cluster cluster = cluster_of("h100-80g", 4);
  Trained job = trained("llama3-8b", "tp4,dp8,zero1", training(128, 1, 4096));
  const double alone = simulated_s(job, cluster);
  Trained slow = job;
  for (const DeviceId device : job.devices) slow.speed[device] = 0.5;
  const double all_slow = simulated_s(slow, cluster);
  EXPECT_GT(all_slow, 1.5 * alone);
  for (const int device : {0, 13, 31}) {
    job.speed = {{DeviceId(device), 0.5}};
    EXPECT_NEAR(simulated_s(job, cluster) / all_slow, 1, 0.02) << "device " << device;
  }
}

TEST(SimulatedStepTime, ADegradedLinkSlowsAndADownOneStops) {
  const cluster::Cluster cluster = cluster_of("h100-80g", 2);
  Trained job = trained("llama3-8b", "dp16,zero1", training(32, 1, 2048));
  const double alone = simulated_s(job, cluster);
  job.links = {{"h0.nic3.up", 0.1}};
  EXPECT_GT(simulated_s(job, cluster), 1.2 * alone);
  job.links = {{"h0.nic3.up", 0}};
  EXPECT_TRUE(std::isinf(simulated_s(job, cluster)));
  job.links = {{"storage.read", 0}, {"h7.nic0.up", 0}};  // nobody's
  EXPECT_EQ(simulated_s(job, cluster), alone);
}

// Links by a part of their names, and a cluster that has them slow from the first.
struct Slow {
  std::string part;
  void (*make)(cluster::Cluster& cluster, double share);
};

template <double cluster::Host::*rate>
void slow_hosts(cluster::Cluster& cluster, double share) {
  for (cluster::Host& host : cluster.hosts) host.*rate *= share;
  // The uplinks have what they had.
  if (rate == &cluster::Host::nic_bytes_per_s) cluster.oversubscription *= share;
}

std::vector<Slow> slow_links() {
  return {{".nic", slow_hosts<&cluster::Host::nic_bytes_per_s>},
          {".pcie.", slow_hosts<&cluster::Host::pcie_bytes_per_s>},
          {".g", slow_hosts<&cluster::Host::gpu_link_bytes_per_s>},
          {"leaf", [](cluster::Cluster& cluster, double share) { cluster.oversubscription /= share; }},
          {"fabric", [](cluster::Cluster& cluster, double share) { cluster.backbone_bytes_per_s *= share; }}};
}

std::map<std::string, double> links_at(const cluster::Cluster& cluster, const std::string& part, double share) {
  std::map<std::string, double> links;
  for (const cluster::NamedLink& link : cluster::links_of(cluster)) {
    const bool pcie = link.name.find(".pcie.") != std::string::npos;
    if (pcie ? part == ".pcie." : link.name.find(part) != std::string::npos) links[link.name] = share;
  }
  return links;
}

TEST(SimulatedStepTime, ADegradedLinkIsASlowLink) {
  for (const Case& one : cases()) {
    Trained job = trained(one.model, one.layout, one.training), natively = job;
    const int hosts = (job.config.world() + one.host.gpus - 1) / one.host.gpus;
    cluster::Cluster star = cluster_of(one.gpu, hosts, one.host), leaves = star;
    star.backbone_bytes_per_s = 100e9;
    leaves.fabric = cluster::FabricKind::kLeafSpine;
    leaves.leaf_hosts = 1;
    leaves.oversubscription = 2;
    for (const cluster::Cluster& cluster : {star, leaves}) {
      for (const Slow& slow : slow_links()) {
        job.links = links_at(cluster, slow.part, 0.1);
        if (job.links.empty()) continue;  // of the other fabric
        cluster::Cluster made = cluster;
        slow.make(made, 0.1);
        const std::string what =
            fmt::format("{} {} {}: {}", one.model, one.layout, name_of(one.training.schedule), slow.part);
        EXPECT_NEAR(analytic_s(job, cluster) / analytic_s(natively, made), 1, 0.01) << what;
        EXPECT_NEAR(simulated_s(job, cluster) / simulated_s(natively, made), 1, 0.01) << what;
      }
    }
  }
}

// 16 micro-batches gather 8.03e9 / 8 parameters of 2 B twice and scatter gradients of 4 B, 7/8 of them to other hosts:
// 112 GB. A tenth of a NIC of 50 GB/s, of which rings reach 0.9, takes 25 s, and work of less than 1 s hides little.
TEST(SimulatedStepTime, SlowNicsTakeWhatTheirBytesTake) {
  const cluster::Cluster cluster = cluster_of("h100-80g", 8);
  Trained job = trained("llama3-8b", "tp8,dp8,zero3", training(128, 1, 8192));
  job.links = links_at(cluster, ".nic", 0.1);
  for (const double seconds : {analytic_s(job, cluster), simulated_s(job, cluster)}) EXPECT_NEAR(seconds, 25, 2);
}

TEST(SimulatedStepTime, RemembersShapes) {
  const cluster::Cluster cluster = two_leaves();
  Trained job = trained("llama3-8b", "tp8", training(32, 1, 2048));
  const SimulatedStepTime model;
  const auto ask = [&] {
    const StepInput input = job.on(cluster);
    return model.steps_s({&input, 1}).front();
  };
  const double first = ask();
  EXPECT_EQ(ask(), first);
  job.devices = devices_from(24, 8);  // another host of the same kind
  EXPECT_EQ(ask(), first);
  EXPECT_EQ(model.simulated(), 1);
  job.speed = {{DeviceId(24), 0.5}};
  EXPECT_GT(ask(), first);
  EXPECT_EQ(model.simulated(), 2);
  job.links = {{"h3.g1.up", 0.5}};
  EXPECT_GT(ask(), first);
  job.links = {{"h0.g1.up", 0.5}};  // not one of the job's
  ask();
  EXPECT_EQ(model.simulated(), 3);
  job.training.micro_batch = 2;
  ask();
  job.training.precision = step::find_precision("fp8").value();
  ask();
  EXPECT_EQ(model.simulated(), 5);
}

TEST(SimulatedStepTime, OtherHostsAreOtherShapes) {
  cluster::Cluster cluster = cluster_of("h100-80g", 2);
  cluster.hosts[1].gpu_link_bytes_per_s /= 2;
  Trained job = trained("llama3-8b", "tp8", training(32, 1, 2048));
  const SimulatedStepTime model;
  const StepInput near = job.on(cluster);
  const double first = model.steps_s({&near, 1}).front();
  job.devices = devices_from(8, 8);
  const StepInput other = job.on(cluster);
  EXPECT_GT(model.steps_s({&other, 1}).front(), first);
  EXPECT_EQ(model.simulated(), 2);
}

TEST(SimulatedStepTime, NobodyTrains) { EXPECT_TRUE(SimulatedStepTime().steps_s({}).empty()); }

}  // namespace
}  // namespace scalai::sim
