#include "labs/validation/policies/small/market_players.h"

#include "gtest/gtest.h"

namespace scalai::policy::small {
namespace {

// 100 s of work due at 200; no spot from 30 to 80.
TEST(MarketPlayers, SpotByHand) {
  const SpotCase one{.gone = {{30, 80}}, .work_s = 100, .deadline_s = 200, .change_s = 0};
  const auto demand = play_spot(SpotRule::kOnDemandOnly, one), spot = play_spot(SpotRule::kSpotOnly, one);
  EXPECT_EQ(demand.end_s, 100);
  EXPECT_EQ(demand.demand_s, 100);
  EXPECT_EQ(spot.end_s, 150);
  EXPECT_EQ(spot.spot_s, 100);
  const auto even = play_spot(SpotRule::kUniform, one);  // 30 s are due at 60; at 80 it is ahead again
  EXPECT_EQ(even.demand_s, 20);
  EXPECT_EQ(even.end_s, 130);
  const auto late =
      play_spot(SpotRule::kGreedy, {.gone = {{30, 200}}, .work_s = 100, .deadline_s = 200, .change_s = 0});
  EXPECT_EQ(late.demand_s, 70);
  EXPECT_EQ(late.end_s, 200);
}

// Ten hours at 1 dollar; from the second hour on 4 dollars, and 3 elsewhere.
TEST(MarketPlayers, ChaserByHand) {
  ChaserCase one{.per_s = {1, 1}, .price = {1, 3}, .changes = {{.at_s = 3600, .type = 0, .price = 4}}, .work = 36000};
  EXPECT_DOUBLE_EQ(play_chaser(one).usd, 1 + 9 * 3);
  one.move_usd = 9.5;  // more than nine hours at a dollar less
  EXPECT_DOUBLE_EQ(play_chaser(one).usd, 1 + 9 * 4);
}

TEST(MarketPlayers, Deadlines) {
  const DueJob one{.work = 120, .slots = 1, .per_slot = {60, 120}}, two{.work = 60, .slots = 1, .per_slot = {60, 120}};
  EXPECT_TRUE(fills({one}, 2));
  EXPECT_FALSE(fills({one, two}, 2));
  EXPECT_FALSE(possible({one, two}, 2));
  // Filling keeps to one level, 1 GPU in both slots; all ways include 2 GPUs and then 1.
  const DueJob first{.work = 180, .slots = 2, .per_slot = {60, 120}},
      second{.work = 60, .slots = 2, .per_slot = {60, 120}};
  EXPECT_TRUE(possible({first, second}, 2));
}

// Two hosts, the second goes at 100: 200 samples, 15 s without training, 1 a second.
TEST(MarketPlayers, HostsByHand) {
  HostsCase one{.hosts = {{.up = {{0, 1000}}, .notice_s = {0}}, {.up = {{0, 100}}, .notice_s = {0}}},
                .detect_s = 5,
                .change_s = 10,
                .until_s = 200,
                .step = 7};
  EXPECT_EQ(play_hosts(one), 175 + 85);  // of 180 samples in 90 s the last five are of a step that is lost
  one.hosts[1].notice_s[0] = 20;         // it leaves at 80, after 140 samples; nothing is lost or to be detected
  EXPECT_EQ(play_hosts(one), 140 + 110);
  one.checkpoint_s = 1000;  // written at the notice; without one all is run again
  EXPECT_EQ(play_hosts(one), 140 + 110);
  one.hosts[1].notice_s[0] = 0;
  EXPECT_EQ(play_hosts(one), 85);
}

// Three pipelines of two. At 10 host 1 goes, in the middle of a step: the rest of it, three samples, takes 1 s at half
// the pace; then 20 s for the change to two pipelines, and the fifth host waits. At 65 both hosts of a pipeline go:
// back to the checkpoint at 60, and 35 s to start again.
TEST(MarketPlayers, PairsByHand) {
  const HostsCase::Host stays{.up = {{0, 1000}}, .notice_s = {0}};
  PairsCase one{.row = {.hosts = std::vector<HostsCase::Host>(6, stays),
                        .detect_s = 5,
                        .until_s = 40,
                        .step = 63,
                        .checkpoint_s = 1000},
                .stages = 2,
                .change_s = 20,
                .fatal_s = 30,
                .slow = 2};
  one.row.hosts[1].up[0].second = 30;  // 60 samples up to then
  EXPECT_DOUBLE_EQ(play_pairs(one), 63);
  one.row.until_s = 60;
  EXPECT_DOUBLE_EQ(play_pairs(one), 63 + 4 * 9);
  one.row.checkpoint_s = 20;  // at 60: ten seconds with six hosts, one with three, nine with four
  one.row.until_s = 110;
  one.row.hosts[3].up[0].second = one.row.hosts[4].up[0].second = 65;  // the second pipeline of 0, 2, 3, 4 and 5
  EXPECT_DOUBLE_EQ(play_pairs(one), 63 + 4 * 9 + 2 * 10);
}

}  // namespace
}  // namespace scalai::policy::small
