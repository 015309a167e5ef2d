#include "ptc/cost/change/stages.h"

#include <gtest/gtest.h>

#include "ptc/plan/estimate.h"
#include "ptc/plan/testing/support.h"

namespace scalai::change {
namespace stages_test {

using Flows = std::vector<BulkFlow>;
using plan::Location;

// Four hosts of two GPUs.
cluster::Cluster small_cluster() {
  cluster::Cluster cluster{.name = "small", .storage_read_bytes_per_s = 1e9, .storage_write_bytes_per_s = 1e9};
  for (int h = 0; h < 4; ++h)
    cluster.hosts.push_back({.first_device = 2 * h,
                             .gpus = 2,
                             .gpu_link_bytes_per_s = 4e9,
                             .pcie_bytes_per_s = 2e9,
                             .nics = 1,
                             .nic_bytes_per_s = 1e9});
  return cluster;
}

Location gpu(int index) { return Location::device(DeviceId(index)); }
Location memory(int host) { return Location::host_memory(HostId(host)); }
constexpr int64_t kGB = 1'000'000'000;

TEST(BulkSeconds, NothingTakesNoTime) { EXPECT_EQ(bulk_seconds(Flows{}, small_cluster()), 0); }

TEST(BulkSeconds, ADeviceIsReachedOverItsPcie) {
  const cluster::Cluster cluster = small_cluster();
  EXPECT_DOUBLE_EQ(bulk_seconds(Flows{{gpu(0), memory(0), 3 * kGB}}, cluster), 1.5);
  // Both directions, and both devices, at once; what goes to one place adds up.
  EXPECT_DOUBLE_EQ(
      bulk_seconds(Flows{{gpu(0), memory(0), 3 * kGB}, {memory(0), gpu(0), 4 * kGB}, {gpu(1), memory(0), kGB}},
                   cluster),
      2);
  EXPECT_DOUBLE_EQ(bulk_seconds(Flows{{gpu(0), memory(0), 3 * kGB}, {gpu(0), memory(0), kGB}}, cluster), 2);
}

TEST(BulkSeconds, OtherHostsAreReachedOverTheNics) {
  const cluster::Cluster cluster = small_cluster();
  EXPECT_DOUBLE_EQ(bulk_seconds(Flows{{gpu(0), memory(1), kGB}}, cluster), 1) << "the NIC of the receiver";
  // Two senders, one receiver.
  EXPECT_DOUBLE_EQ(bulk_seconds(Flows{{memory(0), memory(2), kGB}, {memory(1), memory(2), 2 * kGB}}, cluster), 3);
}

TEST(BulkSeconds, StorageIsSharedByAll) {
  cluster::Cluster cluster = small_cluster();
  EXPECT_DOUBLE_EQ(bulk_seconds(Flows{{gpu(0), Location::storage(), kGB}, {gpu(7), Location::storage(), kGB}}, cluster),
                   2);
  // Writing does not slow reading; memory to storage is not held up by the host's NICs.
  EXPECT_DOUBLE_EQ(
      bulk_seconds(Flows{{memory(0), Location::storage(), kGB}, {Location::storage(), gpu(0), 3 * kGB}}, cluster), 3);
  cluster.storage_write_bytes_per_s = 0;
  EXPECT_DOUBLE_EQ(bulk_seconds(Flows{{gpu(0), Location::storage(), kGB}}, cluster), 0.5) << "storage without a rate";
}

TEST(FixedSeconds, ArePlanRestartCommunicatorsAndCompilation) {
  EXPECT_DOUBLE_EQ(fixed_seconds({.plan_s = 1, .restart_s = 2, .communicator_s = 10}, {.ranks = 16, .kinds = {}}),
                   1 + 2 + 10);
  EXPECT_DOUBLE_EQ(fixed_seconds({.communicator_s = 0.5, .compile_s = 60}, {}), 60.5);
  EXPECT_DOUBLE_EQ(fixed_seconds({.detect_s = 5, .communicator_s = 0.5, .transfer_start_s = 3}, {}), 0.5);
}

// A tensor of 256 bytes stays on its device and goes to another one, too.
TEST(Estimate, AddsUpItsPhases) {
  const plan::Case grow{.from = plan::replicas({64}, plan::devices({0})),
                        .to = plan::replicas({64}, plan::devices({0, 1})),
                        .cluster = small_cluster()};
  const plan::Plan plan = grow.plan();
  const std::vector<double> rounds = plan::round_seconds(plan, grow.cluster);
  ASSERT_EQ(rounds.size(), 1u);
  ASSERT_GT(rounds[0], 0);
  const Costs costs = {.plan_s = 1,
                       .restart_s = 2,
                       .allocate_bytes_per_s = 256,
                       .verify_bytes_per_s = 128,
                       .communicator_s = 3,
                       .transfer_start_s = 0.25};
  const Flows stage = {{gpu(0), memory(0), 2 * kGB}}, load = {{memory(0), gpu(0), 4 * kGB}};
  const Change change{.plan = plan, .cluster = grow.cluster, .costs = costs, .stage = stage, .load = load};
  const PhaseSeconds once = estimate(change), twice = estimate(change, 2);
  EXPECT_DOUBLE_EQ(once.stop, 1);
  EXPECT_DOUBLE_EQ(once.plan, 1);
  EXPECT_DOUBLE_EQ(once.restart, 2);
  EXPECT_DOUBLE_EQ(once.prepare, 1);
  EXPECT_DOUBLE_EQ(once.transfer, 0.25 + rounds[0]);
  Costs by_message = costs;
  by_message.messages = {.box_s = 0.5, .peer_s = 4};  // one box to one device
  EXPECT_DOUBLE_EQ(
      estimate({.plan = plan, .cluster = grow.cluster, .costs = by_message, .stage = stage, .load = load}).transfer,
      0.25 + 4.5 + rounds[0]);
  EXPECT_DOUBLE_EQ(once.verify, 2);
  EXPECT_DOUBLE_EQ(once.resume, 3 + 2);
  EXPECT_DOUBLE_EQ(twice.stop, 2);
  EXPECT_DOUBLE_EQ(twice.plan, 1);
  EXPECT_DOUBLE_EQ(twice.prepare, 2);
  EXPECT_DOUBLE_EQ(twice.transfer, 0.25 + 2 * rounds[0]);
  EXPECT_DOUBLE_EQ(twice.verify, 4);
  EXPECT_DOUBLE_EQ(twice.resume, 3 + 4);

  // Graphs are compiled last, whatever moved.
  Change compiled = change;
  compiled.costs.compile_s = 60;
  EXPECT_DOUBLE_EQ(estimate(compiled).resume, once.resume + 60);
  EXPECT_DOUBLE_EQ(estimate(compiled, 2).resume, twice.resume + 60);
  const std::vector<Stage> stages = stages_of(compiled);
  EXPECT_EQ(stages.size(), stages_of(change).size() + 1);
  EXPECT_EQ(stages.back().what, Stage::What::kCompile);
  EXPECT_EQ(stages.back().wait_s, 60);

  // Kept state returns over PCIe; what is uploaded stays in its host and takes no time.
  Change other = change;
  other.restore = true;
  EXPECT_DOUBLE_EQ(estimate(other).transfer, once.transfer + 256 / 2e9);
  other.upload = true;
  EXPECT_DOUBLE_EQ(estimate(other).transfer, once.transfer + 256 / 2e9);
}

TEST(Estimate, ARoundWithoutTransfersDoesNotStart) {
  const plan::Case stay{.from = plan::replicas({64}, plan::devices({0})),
                        .to = plan::replicas({64}, plan::devices({0})),
                        .cluster = small_cluster()};
  const plan::Plan plan = stay.plan();
  EXPECT_EQ(estimate({.plan = plan, .cluster = stay.cluster, .costs = {.transfer_start_s = 0.25}}).transfer, 0);
}

TEST(ClassOf, IsByTheTwoEnds) {
  const cluster::Cluster cluster = small_cluster();
  EXPECT_EQ(class_of(cluster, gpu(0), gpu(0)), plan::TransferClass::kSameDevice);
  EXPECT_EQ(class_of(cluster, gpu(0), gpu(1)), plan::TransferClass::kSameHost);
  EXPECT_EQ(class_of(cluster, gpu(0), memory(1)), plan::TransferClass::kCrossHost);
  EXPECT_EQ(class_of(cluster, gpu(0), Location::storage()), plan::TransferClass::kCrossHost);
  EXPECT_EQ(class_of(cluster, Location::storage(), memory(0)), plan::TransferClass::kFromStorage);
}

// A tensor of 64 floats on one device, cut over two: each request reads all 256 bytes and copies the 128 that it takes.
TEST(Copies, AStoreReadsAWholeTensorForASlice) {
  const auto halves = plan::one_tensor({64}, plan::cut_over("x", 0), plan::devices({2, 3}));
  const auto whole = plan::replicas({64}, plan::devices({0}));
  cluster::Cluster cluster = small_cluster();
  cluster.hosts[0].store_serve_bytes_per_s = 1024;
  cluster.hosts[1].store_ingest_bytes_per_s = 512;
  const auto seconds = [&](const collection::Collection& from, const collection::Collection& to, bool upload) {
    plan::Case made{.from = from, .to = to, .cluster = cluster};
    made.options.in_place = false;
    const plan::Plan plan = made.plan();
    const Change change{.plan = plan, .cluster = cluster, .upload = upload, .from = &made.from, .to = &made.to};
    const std::vector<double> copying = store_work(change).copies_s;
    EXPECT_EQ(copying.size(), 1u);  // a round
    EXPECT_GE(estimate(change).transfer, copying.front());
    return copying.front();
  };
  EXPECT_DOUBLE_EQ(seconds(whole, halves, true), 2 * 256 / 1024.0);
  EXPECT_EQ(seconds(whole, halves, false), 0) << "in place nothing goes by way of stores";
  EXPECT_EQ(seconds(whole, plan::replicas({64}, plan::devices({2})), true), 0) << "a whole tensor is copied by nobody";
  // Put together from its halves on host 1, which takes them in once more.
  EXPECT_DOUBLE_EQ(seconds(plan::one_tensor({64}, plan::cut_over("x", 0), plan::devices({0, 1})),
                           plan::replicas({64}, plan::devices({2})), true),
                   256 / 512.0);
}

// A tensor of 64 floats. Host 0 answers for each box; the store of the target's host takes in whole tensors.
TEST(Requests, EachBoxIsAskedForAndEachTensorIsWritten) {
  const auto requests = [&](const collection::Collection& from, const collection::Collection& to, bool upload,
                            HostId hub = HostId()) {
    plan::Case made{.from = from, .to = to, .cluster = small_cluster()};
    made.options.in_place = false;
    made.options.hub = hub;
    const plan::Plan plan = made.plan();
    const Change change{.plan = plan,
                        .cluster = made.cluster,
                        .costs = {.messages = {.box_s = 0.5, .peer_s = 100}},
                        .upload = upload,
                        .from = &made.from,
                        .to = &made.to,
                        .hub = hub};
    const double seconds = store_work(change).requests_s.front();
    if (upload) {
      EXPECT_DOUBLE_EQ(estimate(change).transfer - estimate([&] {
                                                     Change free = change;
                                                     free.costs.messages = {};
                                                     return free;
                                                   }())
                                                       .transfer,
                       seconds);
      for (const Stage& stage : stages_of(change)) {
        if (stage.what != Stage::What::kRound) continue;
        EXPECT_GE(stage.wait_s, seconds);
      }
    }
    return seconds / 0.5;
  };
  const auto whole = plan::replicas({64}, plan::devices({0}));
  const auto halves = plan::one_tensor({64}, plan::cut_over("x", 0), plan::devices({2, 3}));
  EXPECT_DOUBLE_EQ(requests(whole, plan::replicas({64}, plan::devices({2})), true), 1) << "one at each host";
  EXPECT_DOUBLE_EQ(requests(whole, halves, true), 2) << "two slices are read, and two are written";
  EXPECT_DOUBLE_EQ(requests(plan::one_tensor({64}, plan::cut_over("x", 0), plan::devices({0, 1})),
                            plan::replicas({64}, plan::devices({2})), true),
                   2)
      << "two slices are read; the tensor of both is written once";
  EXPECT_DOUBLE_EQ(requests(whole, plan::replicas({64}, plan::devices({1})), true), 2) << "one host reads and writes";
  EXPECT_DOUBLE_EQ(requests(whole, halves, true, HostId(0)), 4) << "one host reads and writes for all";
  EXPECT_EQ(requests(whole, halves, false), 0);
}

}  // namespace stages_test
}  // namespace scalai::change
