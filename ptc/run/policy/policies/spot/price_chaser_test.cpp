#include "ptc/run/policy/policies/spot/price_chaser.h"

#include "ptc/run/policy/policies/spot/testing/support.h"

namespace scalai::policy {
namespace price_chaser_test {

using spot::ChaserOptions;
using spot::make_price_chaser;
using testing::due_job;
using testing::kSpot;
using testing::price_event;
using testing::spot_event;
using testing::SpotRun;
using testing::Stay;
using Stays = std::vector<Stay>;

const Stays kStays = {{0, "spot"}};
const Stays kMoves = {{0, "spot"}, {3600, "od"}};

// Ten hours of work; "spot" costs 1 dollar an hour until 1 h, then `price`; "od" costs 3.
SpotRun ten_hours(double price, const ChaserOptions& options) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.availability.events = {price_event(3600, kSpot, price)};
  run.workload.jobs = {due_job(36000, kNever)};
  run.run(*make_price_chaser(options));
  return run;
}

TEST(PriceChaser, StartsWhereItIsCheapest) { EXPECT_EQ(ten_hours(2, {}).stays, kStays); }

TEST(PriceChaser, MovesWhenItSaves) { EXPECT_EQ(ten_hours(4, {}).stays, kMoves); }

// Nine hours at 1 dollar less: worth a move of less than 9 dollars.
TEST(PriceChaser, ComparesTheSavingWithTheEgress) {
  EXPECT_EQ(ten_hours(4, {.state_gb = 89, .egress_usd_per_gb = 0.1}).stays, kMoves);
  EXPECT_EQ(ten_hours(4, {.state_gb = 91, .egress_usd_per_gb = 0.1}).stays, kStays);
  // Expecting to stay two hours only, a move may cost 2 dollars.
  const ChaserOptions brief{.state_gb = 21, .egress_usd_per_gb = 0.1, .expected_stay_s = 7200};
  EXPECT_EQ(ten_hours(4, brief).stays, kStays);
}

// A restart of an hour costs 3 dollars; nine hours of work at 30 cents less are not worth it, at 40 cents they are.
TEST(PriceChaser, CountsTheRestart) {
  for (const double price : {3.3, 3.4}) {
    SpotRun run;
    run.fleet = testing::spot_fleet(1, 1);
    run.availability.events = {price_event(3600, kSpot, price)};
    run.workload.jobs = {due_job(9 * 3600, kNever)};
    run.change_s = 3600;
    run.run(*make_price_chaser({}));
    EXPECT_EQ(run.stays, price == 3.3 ? kStays : kMoves);
  }
}

// Prices change places each two hours: one move a day, or as many as one likes.
TEST(PriceChaser, MovesOnceADay) {
  const auto moves = [](double a_day) {
    SpotRun run;
    run.fleet = testing::spot_fleet(1, 1);
    for (int i = 1; i < 30; ++i) {
      run.availability.events.push_back(price_event(i * 7200, kSpot, i % 2 == 1 ? 9 : 1));
    }
    run.workload.jobs = {due_job(60 * 3600, kNever)};
    run.run(*make_price_chaser({.moves_per_day = a_day}));
    return run.outcome.jobs[0].restarts;
  };
  EXPECT_EQ(moves(0), 0);
  EXPECT_EQ(moves(1), 3);     // 60 hours: at 2, 28 and 54 hours or so
  EXPECT_EQ(moves(100), 29);  // each time
}

TEST(PriceChaser, TakesWhatIsLeftAfterALoss) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.availability.events = {spot_event(100, FleetEvent::Kind::kTaken, 0)};
  run.workload.jobs = {due_job(1000, kNever)};
  run.run(*make_price_chaser({.moves_per_day = 0}));
  EXPECT_EQ(run.stays, (Stays{{0, "spot"}, {100, ""}, {100, "od"}}));
}

TEST(PriceChaser, LooksSeldomAtAJobThatTrains) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.workload.jobs = {due_job(3600, 3600.005)};
  run.run(*make_price_chaser({}));
  EXPECT_LT(run.outcome.decisions, 10);
}

// The cheap type does half the work a second: 1,000 s on the dear one, due at 1,200.
TEST(PriceChaser, KeepsADeadline) {
  SpotRun run;
  run.fleet = testing::spot_fleet(1, 1);
  run.throughput = testing::PlainThroughput({0.5, 1});
  run.workload.jobs = {due_job(1000, 1200)};
  run.run(*make_price_chaser({}));
  EXPECT_EQ(run.stays[0], (Stay{0, "od"}));
  EXPECT_LE(run.outcome.jobs[0].finish_s, 1200);
}

}  // namespace price_chaser_test
}  // namespace scalai::policy
