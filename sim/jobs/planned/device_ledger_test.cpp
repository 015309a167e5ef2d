#include "sim/jobs/planned/internal/device_ledger.h"

#include <gmock/gmock.h>

#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs::internal {
namespace device_ledger_test {

using ::testing::ElementsAre;

DeviceId g(int number) { return DeviceId(number); }
policy::Placement some(std::vector<policy::HostShare> hosts) {
  return {.type = policy::GpuType(0), .hosts = std::move(hosts)};
}

class DeviceLedgerTest : public ::testing::Test {
 protected:
  cluster::Cluster cluster_ = testing::cluster_of({.hosts = 2});
  DeviceLedger device_ledger_{cluster_};
};

TEST_F(DeviceLedgerTest, FreeOnesByNumber) {
  EXPECT_THAT(device_ledger_.take(policy::JobId(0), some({{HostId(0), 2}, {HostId(1), 1}}), {}),
              ElementsAre(g(0), g(1), g(4)));
  EXPECT_THAT(device_ledger_.take(policy::JobId(1), some({{HostId(0), 2}}), {}), ElementsAre(g(2), g(3)));
}

TEST_F(DeviceLedgerTest, ItsOwnFirst) {
  device_ledger_.take(policy::JobId(0), some({{HostId(0), 1}}), {});
  const std::vector<DeviceId> own = device_ledger_.take(policy::JobId(1), some({{HostId(0), 2}}), {});
  EXPECT_THAT(own, ElementsAre(g(1), g(2)));
  device_ledger_.give(policy::JobId(0));
  EXPECT_THAT(device_ledger_.take(policy::JobId(1), some({{HostId(0), 1}}), own), ElementsAre(g(1)));
  EXPECT_THAT(device_ledger_.take(policy::JobId(1), some({{HostId(0), 3}}), {g(1)}), ElementsAre(g(0), g(1), g(2)));
}

TEST_F(DeviceLedgerTest, WhatIsGivenIsFree) {
  device_ledger_.take(policy::JobId(0), some({{HostId(0), 4}}), {});
  device_ledger_.give(policy::JobId(0));
  EXPECT_THAT(device_ledger_.take(policy::JobId(1), some({{HostId(0), 1}}), {}), ElementsAre(g(0)));
}

// The one that has them will say later, at the same instant, that it goes.
TEST_F(DeviceLedgerTest, OthersWhereThereAreNotEnough) {
  device_ledger_.take(policy::JobId(0), some({{HostId(0), 3}}), {});
  EXPECT_THAT(device_ledger_.take(policy::JobId(1), some({{HostId(0), 2}}), {}), ElementsAre(g(0), g(3)));
  device_ledger_.give(policy::JobId(0));  // keeps what is the other's now
  EXPECT_THAT(device_ledger_.take(policy::JobId(2), some({{HostId(0), 2}}), {}), ElementsAre(g(1), g(2)));
}

}  // namespace device_ledger_test
}  // namespace scalai::jobs::internal
