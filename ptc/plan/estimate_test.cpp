#include "ptc/plan/estimate.h"

#include <gtest/gtest.h>

#include <utility>

#include "ptc/plan/testing/support.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::plan {
namespace estimate_test {

// Hosts with 900 GB/s between GPUs, 60 GB/s to the host and 8 NICs of 50 GB/s.
cluster::Cluster rated(int hosts, int gpus) {
  cluster::Cluster cluster = cluster_of(hosts, gpus);
  for (cluster::Host& host : cluster.hosts) {
    host.gpu_link_bytes_per_s = 450e9;
    host.pcie_bytes_per_s = 60e9;
    host.nics = 8;
    host.nic_bytes_per_s = 50e9;
  }
  cluster.storage_read_bytes_per_s = 10e9;
  return cluster;
}

TEST(Estimate, TakesTheSlowestLinkOfARound) {
  Case job{
      .from = replicas({1 << 16}, devices({0})), .to = replicas({1 << 16}, devices({1, 4, 5})), .cluster = rated(2, 4)};
  const double bytes = 4 << 16;
  // Across once and passed on inside: the NIC is fastest here, GPU links carry one box each; two hops.
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), 2 * kMessageLatency_s + bytes / 400e9, 1e-9);
  job.residency = {.lost = {DeviceId(0)}, .extra = {}, .storage = true};
  // One read, a second hop to the other host and a third inside it.
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), 3 * kMessageLatency_s + bytes / 10e9, 1e-9);
}

// What comes from storage comes in by the NICs of the host.
TEST(Estimate, StorageReadsEnterByTheNetwork) {
  Case job{
      .from = replicas({1 << 16}, devices({0})), .to = replicas({1 << 16}, devices({1, 2})), .cluster = rated(2, 4)};
  job.residency = {.lost = {DeviceId(0)}, .extra = {}, .storage = true};
  job.options = {.name = "checkpoint-restart", .sources = SourceRule::kStorage};
  job.cluster.storage_read_bytes_per_s = 1e12;
  const double bytes = 4 << 16;
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), kMessageLatency_s + bytes / 60e9, 1e-9) << "PCIe of each";
  job.cluster.hosts[0].nics = 1;
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), kMessageLatency_s + 2 * bytes / 50e9, 1e-9);
}

// Two hosts a leaf, and a pod of two leaves: 8 · 50 GB/s a host, 800 / 4 above a leaf, 1,600 / 16 above a pod.
TEST(Estimate, OversubscribedUplinksCount) {
  const double bytes = 4 << 20;
  const auto seconds = [&](int to, cluster::Cluster cluster) {
    Case job{.from = replicas({1 << 20}, devices({0})),
             .to = replicas({1 << 20}, devices({to})),
             .cluster = std::move(cluster)};
    return estimate_seconds(job.plan(), job.cluster) - kMessageLatency_s;
  };
  cluster::Cluster tree = rated(8, 1);
  for (cluster::Host& host : tree.hosts) host.nics = 1, host.nic_bytes_per_s = 400e9;
  EXPECT_NEAR(seconds(4, tree), bytes / 400e9, 1e-12);
  tree.fabric = cluster::FabricKind::kFatTree;
  tree.leaf_hosts = 2;
  tree.group_hosts = 4;
  tree.oversubscription = 4;
  tree.group_oversubscription = 16;
  EXPECT_NEAR(seconds(1, tree), bytes / 400e9, 1e-12);
  EXPECT_NEAR(seconds(2, tree), bytes / 200e9, 1e-12);
  EXPECT_NEAR(seconds(4, tree), bytes / 100e9, 1e-12);
  for (size_t h = 0; h < 8; ++h) tree.hosts[h].nvlink_domain = static_cast<int>(h / 4);
  EXPECT_NEAR(seconds(2, tree), bytes / 450e9, 1e-12) << "GPU links";
  EXPECT_NEAR(seconds(4, tree), bytes / 100e9, 1e-12);
  cluster::Cluster star = rated(8, 1);
  star.backbone_bytes_per_s = 10e9;
  EXPECT_NEAR(seconds(4, star), bytes / 10e9, 1e-12);
}

// Nothing is kept: three tensors for each of four devices out of the memory of device 0's host, itself among them. That
// memory has 12 boxes and 4 peers, a device 3 boxes and one peer.
TEST(MessageSeconds, AreThoseOfTheBusiestDevice) {
  Case job{.from = replicas({64}, devices({0})), .to = replicas({64}, devices({0, 4, 8, 12})), .cluster = rated(4, 4)};
  for (collection::Collection* side : {&job.from, &job.to}) {
    side->tensors.push_back(tensor_of("v", {64}, {}));
    side->tensors.push_back(tensor_of("u", {32}, {}));
  }
  job.options.sources = SourceRule::kFirstReplica;  // all from device 0
  job.options.in_place = false;
  const Plan plan = job.plan();
  EXPECT_EQ(plan.operations().size(), 12U);
  const std::vector<double> seconds = message_seconds(plan, {.box_s = 2, .peer_s = 100});
  ASSERT_EQ(seconds.size(), 1U);
  EXPECT_EQ(seconds[0], 2 * 12 + 100 * 4);
  EXPECT_EQ(message_seconds(plan, {})[0], 0);
}

TEST(Estimate, NothingMovesInNoTime) {
  const Case job{.from = replicas({8}, devices({0, 4})), .to = replicas({8}, devices({4, 0})), .cluster = rated(2, 4)};
  EXPECT_EQ(estimate_seconds(job.plan(), job.cluster), 0);
}

TEST(Estimate, RoundsAddUp) {
  Case job{
      .from = replicas({64, 1024}, devices({0})), .to = replicas({64, 1024}, devices({4})), .cluster = rated(2, 4)};
  const double once = estimate_seconds(job.plan(), job.cluster);
  job.to.tensors.push_back(tensor_of("v", {64, 1024}, {}));
  job.from.tensors.push_back(tensor_of("v", {64, 1024}, {}));
  job.options.round_bytes = 4 * 64 * 1024;
  const Plan plan = job.plan();
  EXPECT_EQ(plan.rounds(), 2);
  EXPECT_NEAR(estimate_seconds(plan, job.cluster), 2 * once, 1e-12);
}

TEST(Estimate, EmulatedDevicesShareWhatTheirHostCopies) {
  Case job{.from = replicas({8, 4}, devices({0, 1})), .to = replicas({8, 4}, devices({2, 3})), .cluster = rated(1, 4)};
  const double bytes = 2 * 8 * 4 * 4;
  job.cluster.hosts[0].copy_bytes_per_s = 1e3;
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), kMessageLatency_s + bytes / 1e3, 1e-9);
  job.cluster.machine_copy_bytes_per_s = 500;
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), kMessageLatency_s + bytes / 500, 1e-9);
  job.to = job.from;
  EXPECT_EQ(estimate_seconds(job.plan(), job.cluster), 0) << "what is kept is not copied";
}

TEST(Estimate, RoomIsMadeForWhatIsNewOnTheBusiestDevice) {
  Case job{.from = replicas({8, 4}, devices({0, 1})), .to = replicas({8, 4}, devices({0, 4})), .cluster = rated(2, 4)};
  EXPECT_EQ(most_allocated_bytes(job.plan()), 8 * 4 * 4) << "g4 takes all of it, g0 nothing";
  EXPECT_DOUBLE_EQ(allocate_seconds(job.plan(), 1e3), 0.128);
  EXPECT_EQ(allocate_seconds(job.plan(), 0), 0) << "no rate, no time";
  job.to = job.from;
  EXPECT_EQ(most_allocated_bytes(job.plan()), 0);
}

// The price of a memory cap of one tensor's size: at most a tenth more predicted time.
TEST(Estimate, ACapOfOneTensorCostsAtMostATenth) {
  struct Change {
    const char* model;
    const char* from;
    const char* to;
  };
  for (const Change& change : {Change{"gpt3-6.7b", "tp4,pp2", "tp2,pp4"}, Change{"gpt3-6.7b", "tp8,pp2", "tp4,pp2,dp2"},
                               Change{"gpt3-6.7b", "tp4,pp4", "tp8,pp1"}, Change{"llama3-8b", "tp8,pp4", "tp4,pp8"},
                               Change{"llama3-8b", "tp2,pp4,dp4,zero1", "tp4,pp4,dp2,zero1"}}) {
    SCOPED_TRACE(testing::Message() << change.model << " " << change.from << " to " << change.to);
    const model::Model model = model::find_model(change.model).value();
    const auto side = [&](const char* layout) {
      const auto config = collection::parse_layout(layout).value();
      return collection::megatron_collection(model, {.param = tensor::DType::kBF16}, config,
                                             first_devices(config.world()))
          .value();
    };
    Case job{.from = side(change.from), .to = side(change.to), .cluster = rated(4, 8)};
    const double free = estimate_seconds(make_plan(job.input()).value(), job.cluster);
    for (const auto& tensor : job.to.tensors) job.options.memory_cap = std::max(job.options.memory_cap, tensor.bytes());
    const auto capped = make_plan(job.input());
    ASSERT_EQ(message_of(capped.status()), "");
    EXPECT_LE(estimate_seconds(*capped, job.cluster), 1.1 * free) << capped->rounds() << " rounds";
  }
}

}  // namespace estimate_test
}  // namespace scalai::plan
