#include "ptc/run/policy/host_ledger.h"

#include <gmock/gmock.h>

#include <set>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Bitmap, IsASet) {
  for (const size_t size : {1u, 64u, 65u, 5000u, 300000u}) {
    SCOPED_TRACE(size);
    Random random(size);
    Bitmap bitmap(size);
    std::set<size_t> set;
    for (int step = 0; step < 2000; ++step) {
      const size_t k = static_cast<size_t>(random.below(static_cast<int64_t>(size)));
      if (random.below(2) == 0) {
        bitmap.insert(k);
        set.insert(k);
      } else {
        bitmap.erase(k);
        set.erase(k);
      }
      const size_t from = static_cast<size_t>(random.below(static_cast<int64_t>(size)));
      const auto next = set.lower_bound(from);
      ASSERT_EQ(bitmap.next(from), next == set.end() ? -1 : static_cast<int64_t>(*next));
      ASSERT_EQ(bitmap.contains(k), set.count(k) > 0);
      ASSERT_EQ(bitmap.empty(), set.empty());
    }
  }
}

std::vector<std::pair<int, int>> shares(const Placement& placement) {
  std::vector<std::pair<int, int>> list;
  for (const HostShare& share : placement.hosts) list.emplace_back(share.host.value, share.gpus);
  return list;
}

TEST(HostLedger, OneHostIfItFitsTheFullestThatHasRoom) {
  HostLedger hosts(testing::plain_fleet(3, 8), nullptr);
  const Placement none;
  EXPECT_THAT(shares(hosts.place(GpuType(0), 5, none)), ElementsAre(std::pair(0, 5)));
  EXPECT_THAT(shares(hosts.place(GpuType(0), 4, none)), ElementsAre(std::pair(1, 4)));
  EXPECT_THAT(shares(hosts.place(GpuType(0), 3, none)), ElementsAre(std::pair(0, 3)));
  EXPECT_THAT(shares(hosts.place(GpuType(0), 10, none)), ElementsAre(std::pair(1, 2), std::pair(2, 8)));
  EXPECT_EQ(hosts.free(GpuType(0)), 2);
}

TEST(HostLedger, ItsOwnHostBeforeAFullerOne) {
  HostLedger hosts(testing::plain_fleet(3, 8), nullptr);
  const Placement own{.type = GpuType(0), .hosts = {{HostId(2), 4}}};
  hosts.place(GpuType(0), 4, Placement{});
  EXPECT_THAT(shares(hosts.place(GpuType(0), 4, own)), ElementsAre(std::pair(2, 4)));
  EXPECT_THAT(shares(hosts.place(GpuType(0), 10, own)), ElementsAre(std::pair(1, 8), std::pair(2, 2)));
}

TEST(HostLedger, HostsUnderNoticeTakeNoMoreAndThoseThatAreDownHaveNothing) {
  HostLedger hosts(testing::plain_fleet(2, 4), nullptr);
  const Placement placed = hosts.place(GpuType(0), 2, Placement{});
  hosts.set_noticed(HostId(0));
  EXPECT_EQ(hosts.capacity(GpuType(0)), 4);
  EXPECT_EQ(hosts.capacity(HostId(0)), 0);
  EXPECT_EQ(hosts.up_gpus(), 8);
  EXPECT_EQ(hosts.free(GpuType(0)), 4);
  hosts.give(placed);
  EXPECT_EQ(hosts.free(GpuType(0)), 4);
  hosts.set_down(HostId(0), 7);
  EXPECT_EQ(hosts.up_gpus(), 4);
  EXPECT_EQ(hosts.last_down_s(HostId(0)), 7);
  EXPECT_THAT(message_of(hosts.take(placed)), HasSubstr("host 0, which is down"));
  hosts.set_up(HostId(0));
  EXPECT_EQ(hosts.free(GpuType(0)), 8);
  EXPECT_TRUE(hosts.take(placed).ok());
  EXPECT_EQ(hosts.free(GpuType(0)), 6);
}

// Whatever happens, the sums are those of the hosts.
TEST(HostLedger, SumsStayInStep) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Fleet fleet = testing::plain_fleet(0, 1);
    fleet.types.push_back({.name = "other"});
    for (int k = 0; k < 12; ++k) {
      fleet.hosts.push_back({.type = GpuType(random.below(2)), .gpus = static_cast<int>(random.between(1, 8))});
    }
    HostLedger hosts(fleet, nullptr);
    std::vector<Placement> placed;
    int held = 0;
    for (int step = 0; step < 300; ++step) {
      const GpuType type(random.below(2));
      const int gpus = static_cast<int>(random.between(1, 12));
      if (random.below(2) == 0 && gpus <= hosts.free(type)) {
        placed.push_back(hosts.place(type, gpus, placed.empty() ? Placement{} : placed.back()));
        ASSERT_EQ(placed.back().gpus(), gpus);
        held += gpus;
      } else if (!placed.empty()) {
        held -= placed.front().gpus();
        hosts.give(placed.front());
        placed.erase(placed.begin());
      }
      ASSERT_EQ(hosts.free(GpuType(0)) + hosts.free(GpuType(1)) + held, fleet.gpus());
    }
  }
}

}  // namespace
}  // namespace scalai::policy
