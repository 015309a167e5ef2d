#include "sim/jobs/planned/internal/abstract_change.h"

#include <gmock/gmock.h>

#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs::internal {
namespace {

using ::testing::ElementsAre;

DeviceId g(int number) { return DeviceId(number); }
HostId h(int number) { return HostId(number); }

std::vector<DeviceId> devices_of(const cluster::Cluster& cluster, const std::vector<int>& hosts) {
  std::vector<DeviceId> devices;
  for (const int host : hosts) {
    for (const DeviceId device : cluster.devices_of(HostId(host))) devices.push_back(device);
  }
  return devices;
}

class AbstractChangeTest : public ::testing::Test {
 protected:
  AbstractChangeTest()
      : model_(job_model({.model = "gpt2"}).value()), cluster_(testing::cluster_of({.hosts = 8, .gpus = 2})) {}

  HeldState held(const std::string& layout, const std::vector<int>& hosts) const {
    return {
        .model = &model_, .config = collection::parse_layout(layout).value(), .devices = devices_of(cluster_, hosts)};
  }
  Configuration target(const std::string& layout) const {
    return {.model = &model_, .config = collection::parse_layout(layout).value(), .training = model_.training};
  }

  JobModel model_;
  cluster::Cluster cluster_;
};

TEST_F(AbstractChangeTest, HostsAreNumberedInRankOrder) {
  const HeldState from = held("tp2,dp2", {5, 1});
  const Configuration to = target("tp2,dp3");
  const ChangePlanner::Question question{
      .from = &from, .lost = {h(1)}, .to = &to, .devices = devices_of(cluster_, {0, 5, 7})};
  const AbstractChange change(cluster_, question, HostId());
  EXPECT_THAT(change.hosts(), ElementsAre(h(5), h(1), h(0), h(7)));
  EXPECT_THAT(change.from_devices(), ElementsAre(g(0), g(1), g(2), g(3)));
  EXPECT_THAT(change.candidates(), ElementsAre(g(0), g(1), g(4), g(5), g(6), g(7)));
  EXPECT_THAT(change.lost_devices(), ElementsAre(g(2), g(3)));
  EXPECT_EQ(change.place_of(g(7)), (Place{.host = 3, .gpu = 1}));
}

// Racks of three: hosts 6, 7 | 0 | 3, each rack a block of its own.
TEST_F(AbstractChangeTest, RacksAreBlocks) {
  cluster_.rack_hosts = 3;
  const HeldState from = held("tp2,dp2", {7, 0});
  const Configuration to = target("tp2,dp4");
  const ChangePlanner::Question question{
      .from = &from, .lost = {}, .to = &to, .devices = devices_of(cluster_, {0, 3, 6, 7})};
  const AbstractChange change(cluster_, question, HostId());
  EXPECT_THAT(change.hosts(), ElementsAre(h(7), h(6), HostId(), h(0), HostId(), HostId(), h(3)));
  for (const DeviceId device : change.candidates()) {
    const HostId host = change.cluster().host_of(device);
    EXPECT_TRUE(change.hosts()[static_cast<size_t>(host.value)].valid());
    EXPECT_EQ(change.place_of(device).host, host.value);
  }
  EXPECT_EQ(change.cluster().rack_of(h(1)), 0);
  EXPECT_EQ(change.cluster().rack_of(h(3)), 1);
}

TEST_F(AbstractChangeTest, AHubIsAHost) {
  const HeldState from = held("tp2", {5});
  const Configuration to = target("tp2");
  const ChangePlanner::Question question{.from = &from, .lost = {}, .to = &to, .devices = devices_of(cluster_, {6})};
  const AbstractChange change(cluster_, question, h(0));
  EXPECT_THAT(change.hosts(), ElementsAre(h(5), h(6), h(0)));
  EXPECT_EQ(change.hub(), h(2));
}

// What tells shapes apart: layouts, which hosts are lost, where the GPUs are in their hosts, racks, kinds of hosts.
TEST_F(AbstractChangeTest, KeysTellShapesApart) {
  const HeldState from = held("tp2,dp2", {5, 1}), mirrored = held("tp2,dp2", {2, 4}), piped = held("tp2,pp2", {5, 1});
  const Configuration to = target("tp2,dp2"), other = target("tp2,pp2");
  const auto key = [&](const HeldState& state, const Configuration& wanted, const std::vector<int>& hosts,
                       std::set<HostId> lost, ChangePlanner::Source source = ChangePlanner::Source::kDevices) {
    const ChangePlanner::Question question{.from = &state,
                                           .lost = std::move(lost),
                                           .to = &wanted,
                                           .devices = devices_of(cluster_, hosts),
                                           .source = source};
    return AbstractChange(cluster_, question, HostId()).key(question);
  };
  const std::string plain = key(from, to, {5, 1}, {});
  EXPECT_EQ(plain, key(mirrored, to, {4, 2}, {}));
  EXPECT_NE(plain, key(piped, to, {5, 1}, {}));
  EXPECT_NE(plain, key(from, other, {5, 1}, {}));
  EXPECT_NE(plain, key(from, to, {5, 0}, {}));
  EXPECT_NE(plain, key(from, to, {5, 1}, {h(1)}));
  EXPECT_NE(plain, key(from, to, {5, 1}, {}, ChangePlanner::Source::kHostMemory));
  EXPECT_NE(key(piped, to, {5, 1}, {h(1)}), key(piped, to, {5, 1}, {h(5)}));  // another stage
  EXPECT_EQ(key(from, to, {5, 3}, {h(1)}), key(from, to, {1, 3}, {h(5)}));    // a replica is a replica
  cluster_.rack_hosts = 2;
  EXPECT_NE(key(held("tp2,dp2", {0, 1}), to, {0, 1}, {}), key(held("tp2,dp2", {0, 2}), to, {0, 2}, {}));
  cluster_.rack_hosts = 0;
  cluster_.hosts[1].nic_bytes_per_s /= 2;
  EXPECT_NE(plain, key(from, to, {5, 1}, {}));
}

TEST_F(AbstractChangeTest, ReplicasThatLostDevicesComeLast) {
  const HeldState from = held("tp2,dp3", {0, 1, 2});
  EXPECT_EQ(canonical_ranks(from, {}, cluster_), from.devices);
  EXPECT_EQ(canonical_ranks(from, {h(0)}, cluster_), devices_of(cluster_, {1, 2, 0}));
  EXPECT_EQ(canonical_ranks(from, {h(2)}, cluster_), from.devices);
  const HeldState piped = held("tp2,dp2,pp2", {0, 1, 2, 3});  // stages: hosts 0, 1 and 2, 3
  EXPECT_EQ(canonical_ranks(piped, {h(2)}, cluster_), devices_of(cluster_, {1, 0, 3, 2}));
  const HeldState sharded = held("tp2,dp3,zero1", {0, 1, 2});
  EXPECT_EQ(canonical_ranks(sharded, {h(0)}, cluster_), sharded.devices);
}

}  // namespace
}  // namespace scalai::jobs::internal
