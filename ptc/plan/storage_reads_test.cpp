#include "ptc/plan/internal/storage_reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ptc/plan/bounds.h"
#include "ptc/plan/estimate.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace {

using internal::storage_reads;
using testing::ElementsAre;

// Everything that device 0 had is lost and lies in storage.
Case restore(collection::Collection from, collection::Collection to, cluster::Cluster cluster) {
  Case job{.from = std::move(from), .to = std::move(to), .cluster = std::move(cluster)};
  job.residency = {.lost = {job.from.device_of_rank.begin(), job.from.device_of_rank.end()}, .extra = {}};
  job.residency.storage = true;
  return job;
}

void rate(cluster::Cluster& cluster, double storage, double nic, double gpu_link) {
  cluster.storage_read_bytes_per_s = storage;
  for (cluster::Host& host : cluster.hosts) {
    host.nic_bytes_per_s = nic;
    host.gpu_link_bytes_per_s = gpu_link;
  }
}

TEST(StorageReads, ABoxIsReadOnceAndPassedOnAsAnyOther) {
  const Case job = restore(replicas({8}, devices({0})), replicas({8}, devices({0, 1, 4, 5, 8})), cluster_of(4, 4));
  const Plan plan = job.plan();
  // 8 elements of 4 bytes for 5 devices on 3 hosts: 1 read, 2 crossings, 5 − 3 inside.
  EXPECT_EQ(plan.bytes(), (ClassBytes{.same_host = 2 * 32, .cross_host = 2 * 32, .from_storage = 32}));
  EXPECT_EQ(plan.bytes(), plan.lower_bound());
}

// k replicas of the parameters and an optimizer in k shards, as with ZeRO-1: storage gives one copy of the state, the
// network the other k − 1 copies of the parameters.
TEST(StorageReads, ReplicasOfParametersCostStorageOneCopy) {
  for (const int k : {2, 3, 8}) {
    const auto state = [&](int first) {
      return collection_of({{"dp", k}}, first_devices(k, first),
                           {tensor_of("param", {24}, {}), tensor_of("moment", {24}, {cut_over("dp", 0)})});
    };
    const Plan plan = restore(state(0), state(0), cluster_of(8, 1)).plan();
    EXPECT_EQ(plan.bytes(), (ClassBytes{.cross_host = (k - 1) * 96, .from_storage = 96 + 96})) << k;
  }
}

// 12 tensors of 32 bytes on 4 hosts of a GPU: 3 chains end at each, so each reads 3 boxes, receives the other 9 and
// sends 12 − 3.
TEST(StorageReads, ReplicasShareReadingAndSending) {
  std::vector<collection::LogicalTensor> tensors;
  for (int i = 0; i < 12; ++i) tensors.push_back(tensor_of("w" + std::to_string(i), {8}, {}));
  const auto state = collection_of({{"dp", 4}}, first_devices(4), tensors);
  std::map<int, int64_t> read, sent;
  restore(state, state, cluster_of(4, 1)).plan().for_each_operation([&](const Operation& operation) {
    const bool stored = operation.transfer_class == TransferClass::kFromStorage;
    (stored ? read[operation.dst.value] : sent[operation.src.index]) += operation.bytes;
  });
  EXPECT_THAT(read, ElementsAre(std::pair(0, 96), std::pair(1, 96), std::pair(2, 96), std::pair(3, 96)));
  EXPECT_THAT(sent, ElementsAre(std::pair(0, 288), std::pair(1, 288), std::pair(2, 288), std::pair(3, 288)));
}

// One host of two GPUs. Once: 3,200 bytes over a NIC of 100 B/s and then a GPU link of 10 B/s, 320 s. Each for itself:
// 6,400 over the NIC, 64 s. With GPU links of 1,000 B/s the NIC alone counts, and reading once is faster.
TEST(StorageReads, EachDeviceReadsWhereThatIsFaster) {
  const auto state = replicas({800}, devices({0, 1}));
  Case job = restore(state, state, cluster_of(1, 2));
  rate(job.cluster, 1000, 100, 10);
  EXPECT_EQ(job.plan().bytes(), (ClassBytes{.from_storage = 6400}));
  EXPECT_EQ(job.plan().bytes(), job.plan().lower_bound());
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), 64, 1e-3);
  rate(job.cluster, 1000, 100, 1000);
  EXPECT_EQ(job.plan().bytes(), (ClassBytes{.same_host = 3200, .from_storage = 3200}));
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), 32, 1e-3);
}

// Two hosts of two GPUs, so little state that latencies count: with x seconds a read, once takes 3 α + x, a read a host
// 2 α + 2 x, a read a device α + 4 x.
TEST(StorageReads, ReadsByHostLieBetween) {
  const auto state = replicas({800}, devices({0, 1, 2, 3}));
  Case job = restore(state, state, cluster_of(2, 2));
  const auto from_storage = [&](double x) {
    job.cluster.storage_read_bytes_per_s = 3200 / x;
    EXPECT_EQ(job.plan().bytes(), job.plan().lower_bound()) << x;
    return job.plan().bytes().from_storage;
  };
  EXPECT_EQ(from_storage(2 * kMessageLatency_s), 3200);
  EXPECT_EQ(from_storage(0.75 * kMessageLatency_s), 2 * 3200);
  EXPECT_EQ(from_storage(0.25 * kMessageLatency_s), 4 * 3200);
}

// What else the plan does counts, too. Host 0 sends 100 bytes to host 1, 1 s; the other two hosts want 100 bytes from
// storage. That it is read by one and passed on costs no more: 2 s if host 0 or 1 had to do it, 1 s as these two do.
TEST(StorageReads, ChainsKeepAwayFromBusyHosts) {
  Case job{
      .from = collection_of({{"x", 4}}, first_devices(4),
                            {tensor_of("v", {25}, {}, {{"x", {0}}}), tensor_of("w", {25}, {}, {{"x", {2}}})}),
      .to = collection_of({{"x", 4}}, first_devices(4),
                          {tensor_of("v", {25}, {}, {{"x", {0, 1}}}), tensor_of("w", {25}, {}, {{"x", {0, 2, 3}}})}),
      .cluster = cluster_of(4, 1)};
  job.residency = {.lost = {DeviceId(2)}, .extra = {}, .storage = true};
  rate(job.cluster, 50, 100, 0);
  const Plan plan = job.plan();
  EXPECT_EQ(plan.bytes(), (ClassBytes{.kept = 100, .cross_host = 300, .from_storage = 100}));
  plan.for_each_operation([&](const Operation& operation) {
    if (operation.tensor == TensorId(1)) {
      EXPECT_NE(operation.src, Location::device(DeviceId(0))) << "host 0 sends already";
    }
  });
}

// Storage has the old type; between devices the narrower one travels.
TEST(StorageReads, AChangeOfTypeIsReadWideAndPassedOnNarrow) {
  collection::Collection to = replicas({8}, devices({0, 4, 8}));
  to.tensors[0].dtype = tensor::DType::kBF16;
  Case job = restore(replicas({8}, devices({0})), to, cluster_of(4, 4));
  EXPECT_EQ(job.plan().bytes(), (ClassBytes{.cross_host = 2 * 16, .from_storage = 32}));
}

TEST(StorageReads, RoundsAndMemoryCapsHoldForWhatIsPassedOn) {
  std::vector<collection::LogicalTensor> tensors;
  for (int i = 0; i < 6; ++i) tensors.push_back(tensor_of("w" + std::to_string(i), {8}, {}));
  const auto state = collection_of({{"dp", 3}}, devices({0, 4, 5}), tensors);
  Case job = restore(state, state, cluster_of(2, 4));
  const ClassBytes bytes = {.same_host = 6 * 32, .cross_host = 6 * 32, .from_storage = 6 * 32};
  job.options.round_bytes = 64;
  EXPECT_EQ(job.plan().bytes(), bytes);
  EXPECT_EQ(job.plan().rounds(), 3) << "two boxes a device and round";
  job.options.round_bytes = 0;
  job.options.memory_cap = 0;
  EXPECT_EQ(job.plan().bytes(), bytes);
  const Plan plan = job.plan();
  for (const DeviceMemory& memory : plan.memory()) EXPECT_EQ(memory.peak_extra, 0);
}

TEST(StorageReads, StrategiesThatPullReadForEveryDevice) {
  const auto state = replicas({8}, devices({0, 1, 4}));
  Case job = restore(state, state, cluster_of(2, 4));
  for (const PlannerOptions& options :
       {PlannerOptions{.name = "checkpoint-restart", .sources = SourceRule::kStorage},
        PlannerOptions{.name = "tenplex", .in_place = false, .sources = SourceRule::kFirstReplica},
        PlannerOptions{.name = "full-migration", .in_place = false}}) {
    job.options = options;
    EXPECT_EQ(job.plan().bytes(), (ClassBytes{.from_storage = 3 * 32})) << options.name;
    EXPECT_THAT(storage_reads(options, job.cluster), ElementsAre(StorageReads::kEachDevice));
  }
}

}  // namespace
}  // namespace scalai::plan
