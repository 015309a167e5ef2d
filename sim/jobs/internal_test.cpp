// The engine's parts by themselves: sets, times, hosts, the clock of a job, sums.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/internal/bitmap.h"
#include "sim/jobs/internal/fair_share.h"
#include "sim/jobs/internal/host_ledger.h"
#include "sim/jobs/internal/indexed_heap.h"
#include "sim/jobs/internal/ledger.h"
#include "sim/jobs/internal/training.h"

namespace scalai::jobs::internal {
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

TEST(IndexedHeap, TheEarliestFirstTiesById) {
  Random random(3);
  IndexedHeap heap(40);
  std::map<int32_t, double> times;
  for (int step = 0; step < 5000; ++step) {
    const int32_t id = static_cast<int32_t>(random.below(40));
    if (random.below(3) > 0) {
      times[id] = static_cast<double>(random.below(20));
      heap.set(id, times[id]);
    } else {
      times.erase(id);
      heap.remove(id);
    }
    std::pair<double, int32_t> first{policy::kNever, -1};
    for (const auto& [other, time] : times) first = std::min(first, std::pair(time, other));
    ASSERT_EQ(heap.empty(), times.empty());
    ASSERT_EQ(heap.top_time(), first.first);
    if (!times.empty()) {
      ASSERT_EQ(heap.top(), first.second);
    }
  }
}

std::vector<std::pair<int, int>> shares(const policy::Placement& placement) {
  std::vector<std::pair<int, int>> list;
  for (const policy::HostShare& share : placement.hosts) list.emplace_back(share.host.value, share.gpus);
  return list;
}

TEST(HostLedger, OneHostIfItFitsTheFullestThatHasRoom) {
  HostLedger hosts(policy::testing::plain_fleet(3, 8), nullptr);
  const policy::Placement none;
  EXPECT_THAT(shares(hosts.place(policy::GpuType(0), 5, none)), ElementsAre(std::pair(0, 5)));
  EXPECT_THAT(shares(hosts.place(policy::GpuType(0), 4, none)), ElementsAre(std::pair(1, 4)));
  EXPECT_THAT(shares(hosts.place(policy::GpuType(0), 3, none)), ElementsAre(std::pair(0, 3)));
  EXPECT_THAT(shares(hosts.place(policy::GpuType(0), 10, none)), ElementsAre(std::pair(1, 2), std::pair(2, 8)));
  EXPECT_EQ(hosts.free(policy::GpuType(0)), 2);
}

TEST(HostLedger, ItsOwnHostBeforeAFullerOne) {
  HostLedger hosts(policy::testing::plain_fleet(3, 8), nullptr);
  const policy::Placement own{.type = policy::GpuType(0), .hosts = {{HostId(2), 4}}};
  hosts.place(policy::GpuType(0), 4, policy::Placement{});
  EXPECT_THAT(shares(hosts.place(policy::GpuType(0), 4, own)), ElementsAre(std::pair(2, 4)));
  EXPECT_THAT(shares(hosts.place(policy::GpuType(0), 10, own)), ElementsAre(std::pair(1, 8), std::pair(2, 2)));
}

TEST(HostLedger, HostsUnderNoticeTakeNoMoreAndThoseThatAreDownHaveNothing) {
  HostLedger hosts(policy::testing::plain_fleet(2, 4), nullptr);
  const policy::Placement placed = hosts.place(policy::GpuType(0), 2, policy::Placement{});
  hosts.set_noticed(HostId(0));
  EXPECT_EQ(hosts.capacity(policy::GpuType(0)), 4);
  EXPECT_EQ(hosts.capacity(HostId(0)), 0);
  EXPECT_EQ(hosts.up_gpus(), 8);
  EXPECT_EQ(hosts.free(policy::GpuType(0)), 4);
  hosts.give(placed);
  EXPECT_EQ(hosts.free(policy::GpuType(0)), 4);
  hosts.set_down(HostId(0), 7);
  EXPECT_EQ(hosts.up_gpus(), 4);
  EXPECT_EQ(hosts.last_down_s(HostId(0)), 7);
  EXPECT_THAT(message_of(hosts.take(placed)), HasSubstr("host 0, which is down"));
  hosts.set_up(HostId(0));
  EXPECT_EQ(hosts.free(policy::GpuType(0)), 8);
  EXPECT_TRUE(hosts.take(placed).ok());
  EXPECT_EQ(hosts.free(policy::GpuType(0)), 6);
}

// Whatever happens, the sums are those of the hosts.
TEST(HostLedger, SumsStayInStep) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    policy::Fleet fleet = policy::testing::plain_fleet(0, 1);
    fleet.types.push_back({.name = "other"});
    for (int k = 0; k < 12; ++k) {
      fleet.hosts.push_back({.type = policy::GpuType(random.below(2)), .gpus = static_cast<int>(random.between(1, 8))});
    }
    HostLedger hosts(fleet, nullptr);
    std::vector<policy::Placement> placed;
    int held = 0;
    for (int step = 0; step < 300; ++step) {
      const policy::GpuType type(random.below(2));
      const int gpus = static_cast<int>(random.between(1, 12));
      if (random.below(2) == 0 && gpus <= hosts.free(type)) {
        placed.push_back(hosts.place(type, gpus, placed.empty() ? policy::Placement{} : placed.back()));
        ASSERT_EQ(placed.back().gpus(), gpus);
        held += gpus;
      } else if (!placed.empty()) {
        held -= placed.front().gpus();
        hosts.give(placed.front());
        placed.erase(placed.begin());
      }
      ASSERT_EQ(hosts.free(policy::GpuType(0)) + hosts.free(policy::GpuType(1)) + held, fleet.gpus());
    }
  }
}

TEST(Training, TimesAndWorkAgree) {
  const Checkpoints none, some{.every_s = 10, .write_s = 3};
  Training plain;
  plain.set_rate(100, 2, none);
  EXPECT_EQ(plain.work(105, none), 10);
  EXPECT_EQ(plain.time_of(10, none), 105);
  plain.set_rate(105, 4, none);
  EXPECT_EQ(plain.time_of(30, none), 110);
  plain.set_rate(105, 0, none);
  EXPECT_EQ(plain.time_of(30, none), policy::kNever);
  Training stops;
  stops.set_rate(0, 2, some);
  EXPECT_EQ(stops.work(11, some), 20);  // it writes
  EXPECT_EQ(stops.work(14, some), 22);
  EXPECT_EQ(stops.time_of(20, some), 10);  // the checkpoint at the very end is not waited for
  EXPECT_EQ(stops.time_of(22, some), 14);
  stops.set_rate(12, 1, some);  // another rate while it writes
  EXPECT_EQ(stops.time_of(25, some), 18);
  EXPECT_EQ(stops.work(18, some), 25);
  EXPECT_EQ(stops.lose(18, some), 5);
  EXPECT_EQ(stops.work(20, some), 20);
  stops.set_rate(20, 1, some);
  stops.save(24, some);
  EXPECT_EQ(stops.lose(24, some), 0);
  stops.drop(4);
  EXPECT_EQ(stops.work(30, some), 20);
}

TEST(Ledger, IntegratesUseAndPrices) {
  const policy::Fleet fleet = policy::testing::plain_fleet(2, 4, 3600);
  HostLedger hosts(fleet, nullptr);
  Ledger ledger(fleet, 10);
  ledger.advance(10, Use{.held = 6, .training = 4, .running_jobs = 2, .waiting_jobs = 1}, hosts);
  EXPECT_EQ(ledger.job_s(), 30);
  EXPECT_EQ(ledger.up_gpu_s(), 80);
  EXPECT_EQ(ledger.paid_per_gpu(policy::GpuType(0)), 10);
  ledger.set_price(policy::GpuType(0), 7200);
  ledger.advance(11, Use{}, hosts);
  EXPECT_EQ(ledger.paid_per_gpu(policy::GpuType(0)), 12);
  policy::Outcome outcome;
  ledger.finish({}, &outcome);
  EXPECT_EQ(outcome.training_gpu_s, 40);
  EXPECT_EQ(outcome.changing_gpu_s, 20);
  EXPECT_EQ(outcome.cost, 96);
}

// Three hosts of four GPUs with 1, 3 and 4 free for 10 s; then the second is under notice for 5 s, then the first is
// wholly free for 1 s, which is after the window.
TEST(Ledger, IntegratesFreeGpusByHost) {
  const policy::Fleet fleet = policy::testing::plain_fleet(3, 4);
  HostLedger hosts(fleet, nullptr);
  ASSERT_TRUE(
      hosts.take(policy::Placement{.type = policy::GpuType(0), .hosts = {{HostId(0), 3}, {HostId(1), 1}}}).ok());
  Ledger ledger(fleet, 10);
  ledger.set_window(5, 15);
  ledger.sample(Use{}, hosts);
  ledger.advance(10, Use{}, hosts);
  EXPECT_EQ(ledger.free_gpu_s(), 80);
  EXPECT_EQ(ledger.unusable_gpu_s(1), 0);
  EXPECT_EQ(ledger.unusable_gpu_s(2), 10) << "the one GPU of the first host";
  EXPECT_EQ(ledger.unusable_gpu_s(3), 10);
  EXPECT_EQ(ledger.unusable_gpu_s(4), 40) << "and the three of the second";
  EXPECT_EQ(ledger.unusable_gpu_s(12), 40) << "on a wholly free host all are of use to a job of several hosts";
  hosts.set_noticed(HostId(1));
  ledger.advance(15, Use{}, hosts);
  EXPECT_EQ(ledger.free_gpu_s(), 80 + 5 * 5);
  hosts.give(policy::Placement{.type = policy::GpuType(0), .hosts = {{HostId(0), 3}}});
  EXPECT_TRUE(hosts.scattered().empty());
  ledger.sample(Use{}, hosts);
  ledger.advance(16, Use{}, hosts);
  EXPECT_EQ(ledger.unusable_gpu_s(4), 40 + 5);
  policy::Outcome outcome;
  ledger.finish({{2, 1}, {12, 3}}, &outcome);
  ASSERT_TRUE(outcome.free);
  EXPECT_EQ(outcome.free->gpu_s, 5 * 8 + 5 * 5);
  EXPECT_EQ(outcome.free->scattered_gpu_s, 5 * 4 + 5 * 1);
  EXPECT_EQ(outcome.free->unusable_gpu_s, (1 * (5 + 5) + 3 * (5 * 4 + 5 * 1)) / 4.0);
  ASSERT_EQ(outcome.use.size(), 2u);
  EXPECT_EQ(std::pair(outcome.use[0].free, outcome.use[0].scattered), std::pair(8, 4));
  EXPECT_EQ(std::pair(outcome.use[1].free, outcome.use[1].scattered), std::pair(8, 0));
}

TEST(Fleet, CountsGpus) {
  policy::Fleet fleet = policy::testing::plain_fleet(2, 4);
  fleet.types.push_back({.name = "other"});
  fleet.hosts.push_back({.type = policy::GpuType(1), .gpus = 3});
  EXPECT_EQ(fleet.gpus(), 11);
  EXPECT_EQ(fleet.gpus(policy::GpuType(0)), 8);
  EXPECT_EQ((policy::Placement{.type = policy::GpuType(0), .hosts = {{HostId(0), 2}, {HostId(1), 3}}}).gpus(), 5);
}

TEST(FairShare, TimesByHand) {
  const policy::Fleet fleet = policy::testing::plain_fleet(2, 4);
  const policy::testing::PlainThroughput throughput;
  const policy::Job job = policy::testing::rigid_job("a", 0, 4, 100);
  EXPECT_EQ(fair_share_s(job, fleet, throughput, 10, 80), 100) << "one job on eight GPUs is not held up";
  EXPECT_EQ(fair_share_s(job, fleet, throughput, 40, 80), 200)
      << "four jobs of four GPUs on eight, for 10 s: half of what each asks for";
  EXPECT_EQ(fair_share_s(job, fleet, throughput, 0, 0), 100);
}

}  // namespace
}  // namespace scalai::jobs::internal
