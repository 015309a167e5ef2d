#include "ptc/run/policy/policies/order/intervals.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace intervals_test {

struct Seen {
  std::vector<double> at_s;
  std::vector<std::vector<Event::Kind>> events;
};

// Gives each new job its GPUs, and asks for a wake-up 100 s after that.
class Plain final : public Policy {
 public:
  explicit Plain(Seen* seen) : seen_(seen) {}
  PolicyTraits traits() const override { return {.preemptive = true}; }
  absl::Status begin(const View& view) override {
    return view.fleet().hosts.size() > 1 ? absl::OkStatus() : invalid("one host");
  }
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    seen_->at_s.push_back(view.now_s());
    seen_->events.emplace_back();
    Decision decision;
    for (const Event& event : events) {
      seen_->events.back().push_back(event.kind);
      if (event.kind != Event::Kind::kSubmitted) continue;
      decision.grants.push_back(
          Grant{.job = event.job, .type = GpuType(0), .gpus = view.job(event.job).gpus, .hosts = {}, .beside = {}});
      decision.wake_at_s = view.now_s() + 100;
    }
    return decision;
  }
  std::string remarks() const override { return "plain"; }

 private:
  Seen* seen_;
};

absl::StatusOr<Outcome> run_plain(const Workload& workload, const Fleet& fleet, double interval_s, Seen* seen) {
  const auto policy = at_intervals(std::make_unique<Plain>(seen), interval_s);
  EXPECT_TRUE(policy->traits().preemptive);
  const auto changes = jobs::make_constant_changes({});
  const testing::PlainThroughput throughput;
  return jobs::run({.workload = &workload,
                    .fleet = &fleet,
                    .availability = nullptr,
                    .throughput = &throughput,
                    .policy = policy.get(),
                    .changes = changes.get(),
                    .options = {},
                    .watcher = {}});
}

TEST(AtIntervals, TellsEverythingAtTheNextMultiple) {
  const Workload workload{
      "w",
      {testing::rigid_job("a", 10, 1, 40), testing::rigid_job("b", 50, 1, 300), testing::rigid_job("c", 120, 1, 10)}};
  Seen seen;
  const auto outcome = run_plain(workload, testing::plain_fleet(2, 4), 60, &seen);
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_DOUBLE_EQ(outcome->jobs[0].finish_s, 100);
  EXPECT_DOUBLE_EQ(outcome->jobs[1].finish_s, 360);
  EXPECT_DOUBLE_EQ(outcome->jobs[2].finish_s, 130);
  EXPECT_EQ(outcome->policy_remarks, "plain");
  for (const double at_s : seen.at_s) EXPECT_EQ(std::fmod(at_s, 60), 0) << at_s;
  using Kind = Event::Kind;
  // Two submissions at 60; the end of the first and the third submission at 120, 220 rounded up for both wake-ups.
  ASSERT_GE(seen.at_s.size(), 4U);
  EXPECT_EQ(seen.at_s[0], 60);
  EXPECT_EQ(seen.events[0], (std::vector<Kind>{Kind::kSubmitted, Kind::kSubmitted}));
  EXPECT_EQ(seen.at_s[1], 120);
  EXPECT_EQ(seen.events[1], (std::vector<Kind>{Kind::kFinished, Kind::kSubmitted}));
  EXPECT_EQ(seen.at_s[2], 180);
  EXPECT_EQ(seen.events[2], (std::vector<Kind>{Kind::kFinished}));
}

TEST(AtIntervals, WakesThePolicyWhenItAskedTo) {
  const Workload workload{"w", {testing::rigid_job("a", 0, 1, 1000)}};
  Seen seen;
  ASSERT_TRUE(run_plain(workload, testing::plain_fleet(2, 4), 60, &seen).ok());
  ASSERT_GE(seen.at_s.size(), 2U);
  EXPECT_EQ(seen.at_s[1], 120);  // 100 rounded up
  EXPECT_EQ(seen.events[1], (std::vector<Event::Kind>{Event::Kind::kTimer}));
}

TEST(AtIntervals, PassesOnWhatThePolicyRefuses) {
  const Workload workload{"w", {testing::rigid_job("a", 0, 1, 10)}};
  Seen seen;
  EXPECT_TRUE(absl::IsInvalidArgument(run_plain(workload, testing::plain_fleet(1, 4), 60, &seen).status()));
}

}  // namespace intervals_test
}  // namespace scalai::policy
