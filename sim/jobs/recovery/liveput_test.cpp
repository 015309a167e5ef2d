#include "sim/jobs/recovery/liveput.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "ptc/base/random.h"

namespace scalai::jobs {
namespace {

// Every set of victims, one by one.
double stages_keep_by_counting(int hosts, int stages, int size, int keep, int out) {
  int good = 0, all = 0;
  for (int set = 0; set < 1 << hosts; ++set) {
    if (__builtin_popcount(static_cast<unsigned>(set)) != out) continue;
    ++all;
    bool kept = true;
    for (int stage = 0; stage < stages; ++stage) {
      int left = 0;
      for (int member = 0; member < size; ++member) left += (set >> (member * stages + stage) & 1) == 0;
      kept = kept && left >= keep;
    }
    good += kept;
  }
  return static_cast<double>(good) / all;
}

TEST(Liveput, ChanceThatStagesKeepHosts) {
  for (int stages = 1; stages <= 3; ++stages) {
    for (int size = 1; size <= 3; ++size) {
      const int hosts = stages * size + 1;
      for (int keep = 0; keep <= size; ++keep) {
        for (int out = 0; out <= hosts; ++out) {
          EXPECT_NEAR(stages_keep(hosts, stages, size, keep, out),
                      stages_keep_by_counting(hosts, stages, size, keep, out), 1e-12)
              << hosts << " hosts, " << stages << " x " << size << ", keep " << keep << ", out " << out;
        }
      }
    }
  }
  EXPECT_EQ(stages_keep(4, 2, 1, 2, 0), 0);  // more than there are
}

LiveputModel small_model() {
  LiveputModel model;
  model.samples_per_s = {{{1, 2}, 10}, {{2, 2}, 19}, {{1, 4}, 16}, {{3, 2}, 27}, {{1, 3}, 14}};
  model.build_s = {{2, 3}, {4, 2}};
  model.state_bytes = 8e9;
  model.p2p_s = {{1e6, 0.001}, {1e9, 1}};
  model.regroup_s = gpt_regroup(0.5, 0.1);
  return model;
}

TEST(Liveput, BestIsTheFastestThatFits) {
  const Liveput liveput(small_model(), 60);
  EXPECT_EQ(liveput.best(1), PipelineLayout{});
  EXPECT_EQ(liveput.best(2), (PipelineLayout{1, 2}));
  EXPECT_EQ(liveput.best(4), (PipelineLayout{2, 2}));
  EXPECT_EQ(liveput.best(9), (PipelineLayout{3, 2}));
  EXPECT_EQ(liveput.throughput({5, 5}), 0);
}

TEST(Liveput, MigrationsByHand) {
  const Liveput liveput(small_model(), 60);
  const PipelineLayout two{2, 2};
  EXPECT_EQ(liveput.migration_s(4, two, 0, 0, two), 0);
  // To one pipeline of the same depth: no state moves. 0.035 + (1 + 2 + 1 + 2) groups, a process.
  EXPECT_NEAR(liveput.migration_s(4, two, 0, 0, {1, 2}), 0.035 + 0.6 + 0.24, 1e-12);
  // One of four hosts goes: one pipeline is left whole in either case.
  EXPECT_NEAR(liveput.migration_s(4, two, 0, 1, {1, 2}), 0.035 + 0.6 + 0.24, 1e-12);
  // Growing: all find each other, build, and a stage of 4 GB comes from a peer.
  EXPECT_NEAR(liveput.migration_s(6, two, 2, 0, {3, 2}), 4 + 6.6 + 0.035 + 0.5 * 12 + 0.24 + 3, 1e-12);
  // Two of four go: with 4 of 6 pairs both stages keep one host, with 2 of 6 a stage is gone and comes from elsewhere.
  const double intra = 0.035 + 0.6 + 0.24;
  // Two hosts are needed and two are left: it shrinks.
  const double inter = 4 + (0.035 + 0.1 * 6 + 0.24 + 3);
  EXPECT_NEAR(liveput.migration_s(4, two, 0, 2, {1, 2}), intra * 4 / 6 + inter * 2 / 6, 1e-9);
  // Other depth: a quarter of the state each, of which a host holds all; no second pipeline to send it to.
  EXPECT_NEAR(liveput.migration_s(4, two, 0, 0, {1, 4}), 0.035 + 0.1 * 10 + 0.24 + 2, 1e-12);
}

// All sequences of layouts, one by one. (Intervals are longer than any migration: of several ways to a layout that is
// still paused, the plan keeps the one of most samples only.)
double best_by_trying(const Liveput& liveput, int hosts, PipelineLayout from, double pause_s,
                      std::span<const HostInterval> ahead) {
  if (ahead.empty()) return 0;
  double best = -1;
  for (const auto& [to, rate] : liveput.model().samples_per_s) {
    if (to.hosts() > ahead[0].hosts) continue;
    double cost = liveput.migration_s(hosts, from, ahead[0].in, ahead[0].out, to);
    if (pause_s > 0) cost = cost > 0 ? cost + liveput.restart_s(to, false) : pause_s;
    const double now = rate * std::max(0.0, liveput.interval_s() - cost);
    const double later =
        best_by_trying(liveput, ahead[0].hosts, to, std::max(0.0, cost - liveput.interval_s()), ahead.subspan(1));
    best = std::max(best, now + later);
  }
  return best;
}

TEST(Liveput, PlansTheBestSequence) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Liveput liveput(small_model(), 20 + random.uniform() * 20);
    int hosts = static_cast<int>(random.between(4, 7));
    const PipelineLayout from = liveput.best(hosts);
    std::vector<HostInterval> ahead;
    int now = hosts;
    for (int i = 0; i < 3; ++i) {
      const int next = static_cast<int>(random.between(2, 7));
      ahead.push_back({next, std::max(0, next - now), std::max(0, now - next)});
      now = next;
    }
    const PipelineLayout first = liveput.plan(hosts, from, 0, ahead);
    const double best = best_by_trying(liveput, hosts, from, 0, ahead);
    // Taking the planned first step, the rest can still reach the best.
    const double cost = liveput.migration_s(hosts, from, ahead[0].in, ahead[0].out, first);
    const double reached = liveput.throughput(first) * std::max(0.0, liveput.interval_s() - cost) +
                           best_by_trying(liveput, ahead[0].hosts, first, std::max(0.0, cost - liveput.interval_s()),
                                          std::span<const HostInterval>(ahead).subspan(1));
    EXPECT_NEAR(reached, best, 1e-9 * best);
  }
}

// 50 s of a migration are left: starting another one, to a layout that is quicker to set up, is done sooner.
TEST(Liveput, CountsAPauseThatIsNotOver) {
  const Liveput liveput(small_model(), 10);
  const std::vector<HostInterval> ahead(6, HostInterval{4, 0, 0});
  EXPECT_EQ(liveput.plan(4, {2, 2}, 50, ahead), (PipelineLayout{1, 4}));
  EXPECT_EQ(liveput.plan(4, {2, 2}, 0, ahead), (PipelineLayout{2, 2}));
}

TEST(Liveput, PlansNothingWhereNothingRuns) {
  const Liveput liveput(small_model(), 60);
  const std::vector<HostInterval> ahead = {{1, 0, 3}};
  EXPECT_EQ(liveput.plan(4, {2, 2}, 0, ahead), PipelineLayout{});
}

TEST(Forecast, FollowsASteadySlopeWithinBounds) {
  const std::vector<int> rising = {10, 11, 12, 13, 14, 15, 16, 17};
  EXPECT_EQ(forecast_hosts(rising, 5, 0, 32), (std::vector<int>{18, 19, 20, 21, 21}));
  EXPECT_EQ(forecast_hosts(rising, 5, 0, 19), (std::vector<int>{18, 19, 19, 19, 19}));
  const std::vector<int> still(9, 7);
  EXPECT_EQ(forecast_hosts(still, 3, 0, 32), (std::vector<int>{7, 7, 7}));
  EXPECT_EQ(forecast_hosts(std::vector<int>{4, 9}, 2, 0, 32), (std::vector<int>{9, 9}));  // too few to tell
}

TEST(Forecast, ForgetsAShortDip) {
  const std::vector<int> dip = {20, 20, 20, 12, 12, 20, 20, 20, 20};
  EXPECT_EQ(forecast_hosts(dip, 3, 0, 32), (std::vector<int>{20, 20, 20}));
}

}  // namespace
}  // namespace scalai::jobs
