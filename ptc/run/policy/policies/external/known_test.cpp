#include "ptc/run/policy/policies/external/known.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ptc/base/random.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/estimates.h"
#include "ptc/run/policy/policies/external/testing/external_view.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::policy {
namespace {

using Kind = Event::Kind;

std::vector<JobId> jobs_of(const News& news) {
  std::vector<JobId> jobs;
  for (const JobNews& one : news.jobs) jobs.push_back(one.job);
  return jobs;
}

TEST(Known, JobsThatGoOnAreNoNews) {
  testing::PaperView view;
  const JobId a = view.add("a", 2, 100), b = view.add("b", 2, 100);
  Known known;
  EXPECT_EQ(jobs_of(known.update(view, {})), (std::vector<JobId>{a, b}));
  view.at(a).placement = {.type = GpuType(0), .hosts = {{HostId(0), 2}}};
  view.at(a).even_per_s = 4;
  known.decided({.grants = {{.job = a, .type = GpuType(0), .gpus = 2, .hosts = {}, .beside = {}}}, .refused = {}});
  EXPECT_EQ(jobs_of(known.update(view, {})), std::vector<JobId>{a});
  EXPECT_EQ(known.held(), (std::vector<int>{2, 0, 0}));
  view.now += 10;
  view.at(a).work_done = 40;
  view.at(a).executed_s = 10;
  view.at(a).attained_gpu_s = 20;
  EXPECT_TRUE(jobs_of(known.update(view, {})).empty());
  view.now += 10;
  view.at(a).even_per_s = 0;  // held up: nothing follows from what was told
  EXPECT_EQ(jobs_of(known.update(view, {{Event{Kind::kRate, a}}})), std::vector<JobId>{a});
  view.now += 10;
  view.at(a).executed_s = 30;
  EXPECT_EQ(jobs_of(known.update(view, {})), std::vector<JobId>{a}) << "so it is told of each time";
}

TEST(Known, JobsThatLeaveAreNamedOnce) {
  testing::PaperView view;
  const JobId a = view.add("a", 2, 100), b = view.add("b", 2, 100), c = view.add("c", 2, 100);
  Known known;
  known.update(view, {});
  view.leave(a);
  view.leave(c);
  known.decided({.grants = {}, .refused = {c}});
  News news = known.update(view, {{Event{Kind::kFinished, a}}});
  EXPECT_THAT(news.gone, ::testing::UnorderedElementsAre("a", "c"));
  EXPECT_FALSE(known.find("a"));
  EXPECT_EQ(known.find("b"), b);
  view.leave(b);
  news = known.update(view, {});
  EXPECT_EQ(news.gone, std::vector<std::string>{"b"}) << "even without an event";
  EXPECT_TRUE(known.update(view, {}).gone.empty());
}

TEST(Known, BoundsThatChangeMakeAJobNew) {
  testing::PaperView view;
  const JobId a = view.add("a", 2, 100);
  Known known;
  EXPECT_TRUE(known.update(view, {}).capacity);
  EXPECT_FALSE(known.update(view, {}).capacity);
  view.spec(a).max_gpus = 1;
  const News news = known.update(view, {{Event{Kind::kCapacity, JobId()}}});
  ASSERT_EQ(news.jobs.size(), 1u);
  EXPECT_TRUE(news.jobs[0].whole && news.jobs[0].rates && news.capacity);
}

// Asks another policy, and keeps what a program knows beside it: all that the view has must be in them, or follow.
class Audited : public Policy {
 public:
  explicit Audited(std::unique_ptr<Policy> policy) : policy_(std::move(policy)) {}
  PolicyTraits traits() const override { return policy_->traits(); }
  absl::Status begin(const View& view) override { return policy_->begin(view); }
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    const News news = known_.update(view, events);
    for (const std::string& name : news.gone) EXPECT_EQ(told_.erase(name), 1u) << name;
    for (const JobNews& one : news.jobs) {
      told_[view.job(one.job).name] = {view.progress(one.job), view.now_s()};
      if (one.whole) work_[view.job(one.job).name] = view.job(one.job).work;
      ++changed;
    }
    asked += static_cast<int64_t>(view.active().size());
    EXPECT_EQ(told_.size(), view.active().size());
    std::vector<int> held(view.fleet().hosts.size());
    for (const JobId id : view.active()) {
      const auto& [then, at_s] = told_[view.job(id).name];
      const Progress now = view.progress(id);
      const double work = then.work_done + then.even_per_s * (view.now_s() - at_s);
      EXPECT_EQ(view.job(id).work, work_[view.job(id).name]);
      EXPECT_EQ(now.placement, then.placement);
      EXPECT_EQ(now.beside, then.beside);
      EXPECT_EQ(now.restarts, then.restarts);
      EXPECT_EQ(now.even_per_s, then.even_per_s);
      EXPECT_NEAR(now.work_done, work, 1e-6 * std::max(1.0, work)) << view.job(id).name << " at " << view.now_s();
      if (now.beside.valid() && now.beside < id) continue;
      for (const HostShare& share : now.placement.hosts) held[static_cast<size_t>(share.host.value)] += share.gpus;
    }
    EXPECT_EQ(known_.held(), held);
    auto decision = policy_->decide(view, events);
    if (decision.ok()) known_.decided(*decision);
    return decision;
  }
  int64_t changed = 0, asked = 0;

 private:
  std::unique_ptr<Policy> policy_;
  Known known_;
  std::map<std::string, std::pair<Progress, double>> told_;
  std::map<std::string, double> work_;  // told
};

// Preemptive, packing and elastic policies; changes that take time, hosts that fail and come back, run times that are
// believed too short or too long.
TEST(Known, RandomRunsFollowFromWhatWasTold) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> policies = {{"srtf", {}},
                                                                                  {"fifo-backfill", {"packing=1.2"}},
                                                                                  {"afs-l", {}},
                                                                                  {"gavel-max-min", {"packing=true"}},
                                                                                  {"tiresias", {}}};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto& [name, set] = policies[seed % policies.size()];
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + name);
    Random random(seed);
    Workload workload{.name = "random", .jobs = {}};
    double at_s = 0;
    for (int k = 0; k < 40; ++k) {
      at_s += static_cast<double>(random.below(200));
      workload.jobs.push_back(testing::rigid_job(std::to_string(k), at_s, 1 << random.below(3),
                                                 10.0 + static_cast<double>(random.below(2000))));
    }
    const Fleet fleet = testing::plain_fleet(3, 4);
    Availability availability;
    for (double t = 100; t < 5000; t += 1000) {
      const HostId host(random.below(3));
      const auto lost = random.below(2) == 0 ? FleetEvent::Kind::kFailed : FleetEvent::Kind::kTaken;
      availability.events.push_back({.at_s = t, .kind = FleetEvent::Kind::kNotice, .hosts = {host}, .until_s = t + 60});
      availability.events.push_back({.at_s = t + 60, .kind = lost, .hosts = {host}});
      availability.events.push_back({.at_s = t + 500, .kind = FleetEvent::Kind::kUp, .hosts = {host}});
    }
    const testing::PlainThroughput throughput({}, 0.8);
    const auto changes = jobs::make_constant_changes({.change_s = seed % 2 == 0 ? 0.0 : 20.0, .start_s = 0});
    auto policy = make_policy(name, set, seed);
    ASSERT_TRUE(policy.ok()) << policy.status();
    auto owned = std::make_unique<Audited>(*std::move(policy));
    const Audited& audited = *owned;
    std::unique_ptr<Policy> asked = std::move(owned);
    if (seed % 3 == 0)
      asked = with_estimates(std::move(asked), estimate_factors({.log_normal = 1}, seed, workload.jobs.size()));
    const absl::StatusOr<Outcome> outcome = jobs::run(jobs::Setup{.workload = &workload,
                                                                  .fleet = &fleet,
                                                                  .availability = &availability,
                                                                  .throughput = &throughput,
                                                                  .policy = asked.get(),
                                                                  .changes = changes.get()});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_LT(audited.changed, audited.asked) << "less than all";
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace scalai::policy
