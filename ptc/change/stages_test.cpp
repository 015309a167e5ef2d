#include "ptc/change/stages.h"

#include <gtest/gtest.h>

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

TEST(FixedSeconds, ArePlanRestartAndCommunicators) {
  EXPECT_DOUBLE_EQ(fixed_seconds({.plan_s = 1, .restart_s = 2}, 16), 1 + 2 + 10);
  EXPECT_DOUBLE_EQ(fixed_seconds({.detect_s = 5, .communicator_s = 0.5, .transfer_start_s = 3}, 1024), 0.5);
}

TEST(ClassOf, IsByTheTwoEnds) {
  const cluster::Cluster cluster = small_cluster();
  EXPECT_EQ(class_of(cluster, gpu(0), gpu(0)), plan::TransferClass::kSameDevice);
  EXPECT_EQ(class_of(cluster, gpu(0), gpu(1)), plan::TransferClass::kSameHost);
  EXPECT_EQ(class_of(cluster, gpu(0), memory(1)), plan::TransferClass::kCrossHost);
  EXPECT_EQ(class_of(cluster, gpu(0), Location::storage()), plan::TransferClass::kCrossHost);
  EXPECT_EQ(class_of(cluster, Location::storage(), memory(0)), plan::TransferClass::kFromStorage);
}

}  // namespace stages_test
}  // namespace scalai::change
