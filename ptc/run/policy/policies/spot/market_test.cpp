#include "ptc/run/policy/policies/spot/market.h"

#include "ptc/run/policy/policies/spot/testing/support.h"

namespace scalai::policy {
namespace {

// Asks the market from within a run, once, and waits for nothing.
class Probe : public Policy {
 public:
  explicit Probe(std::function<void(const View&)> look) : look_(std::move(look)) {}
  PolicyTraits traits() const override { return {}; }
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    Decision decision;
    for (const Event& event : events) {
      if (event.kind != Event::Kind::kSubmitted) continue;
      if (look_) look_(view);
      look_ = nullptr;
      decision.grants.push_back(
          {.job = event.job, .type = testing::kSpot, .gpus = view.job(event.job).gpus, .hosts = {}, .beside = {}});
    }
    return decision;
  }

 private:
  std::function<void(const View&)> look_;
};

TEST(Market, TypesAndPrices) {
  testing::SpotRun run;
  run.fleet = testing::spot_fleet(2, 3);
  run.throughput = testing::PlainThroughput({0.5, 1});
  run.workload.jobs = {testing::due_job(100, 400, 2)};
  Probe probe([](const View& view) {
    EXPECT_EQ(*spot::on_demand_type(view, ""), testing::kDemand);
    EXPECT_EQ(*spot::on_demand_type(view, "spot"), testing::kSpot);
    const auto none = spot::on_demand_type(view, "sopt");
    EXPECT_NE(none.status().ToString().find("spot, od"), std::string::npos);
    spot::Market market(view, testing::kDemand);
    const JobId job(0);
    EXPECT_TRUE(market.is_spot(testing::kSpot));
    EXPECT_FALSE(market.is_spot(testing::kDemand));
    EXPECT_EQ(market.free(testing::kSpot), 2);
    EXPECT_EQ(market.cheapest_spot(job), testing::kSpot);
    EXPECT_DOUBLE_EQ(market.usd_per_work(job, testing::kSpot), 2.0 / 3600 / 0.5);
    market.take(testing::kSpot, 1);
    EXPECT_FALSE(market.cheapest_spot(job).valid());
    EXPECT_FALSE(market.holds(job));
    EXPECT_TRUE(market.serves(view.job(job), testing::kDemand));
    const spot::Clock clock = spot::clock_of(view, market, job);
    EXPECT_EQ(clock.total_s, 400);
    EXPECT_EQ(clock.work_s, 100);
    EXPECT_EQ(clock.slack_s(), 300);
    EXPECT_EQ(clock.expected_s(80), 20);
  });
  run.run(probe);
}

TEST(Market, OneTypeIsBoth) {
  testing::SpotRun run;
  run.fleet = testing::plain_fleet(1, 1);
  run.workload.jobs = {testing::due_job(10, kNever)};
  Probe probe([](const View& view) {
    const spot::Market market(view, *spot::on_demand_type(view, ""));
    EXPECT_TRUE(market.is_spot(market.on_demand()));
  });
  run.run(probe);
}

}  // namespace
}  // namespace scalai::policy
