// The engine's parts by themselves: times, the clock of a job, sums.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/internal/fair_share.h"
#include "sim/jobs/internal/indexed_heap.h"
#include "sim/jobs/internal/ledger.h"
#include "sim/jobs/internal/training.h"

namespace scalai::jobs::internal {
namespace {

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
  policy::HostLedger hosts(fleet, nullptr);
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
  policy::HostLedger hosts(fleet, nullptr);
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
