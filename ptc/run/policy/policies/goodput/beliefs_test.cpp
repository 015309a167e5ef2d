#include "ptc/run/policy/policies/goodput/beliefs.h"

#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/goodput/testing/profiles.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy {
namespace {

// What a policy may see, set by hand.
class FakeView final : public View {
 public:
  FakeView(const Fleet& fleet, const Throughput& throughput) : fleet_(fleet), throughput_(throughput) {}
  double now_s() const override { return now; }
  const Fleet& fleet() const override { return fleet_; }
  int capacity(GpuType type) const override { return fleet_.gpus(type); }
  int capacity(HostId host) const override { return fleet_.hosts[static_cast<size_t>(host.value)].gpus; }
  double price(GpuType) const override { return 0; }
  const Job& job(JobId id) const override { return jobs[static_cast<size_t>(id.value)]; }
  Progress progress(JobId id) const override { return states[static_cast<size_t>(id.value)]; }
  std::span<const JobId> active() const override { return ids; }
  const Throughput& throughput() const override { return throughput_; }
  double change_cost_s(JobId, int) const override { return 30; }

  double now = 0;
  std::vector<Job> jobs;
  std::vector<Progress> states;
  std::vector<JobId> ids;

 private:
  const Fleet& fleet_;
  const Throughput& throughput_;
};

Placement on(std::vector<int> gpus) {
  Placement placement{GpuType(0), {}};
  for (size_t h = 0; h < gpus.size(); ++h) placement.hosts.push_back({HostId(static_cast<int64_t>(h)), gpus[h]});
  return placement;
}

TEST(Beliefs, CountOnlyGpusTrainedOn) {
  const Fleet fleet = testing::plain_fleet(4, 4);
  const testing::PlainThroughput throughput;
  FakeView view(fleet, throughput);
  view.jobs = {testing::rigid_job("a", 0, 1, 100)};
  view.states.resize(1);
  view.ids = {JobId(0)};
  Beliefs beliefs(true);
  beliefs.observe(view);
  EXPECT_EQ(beliefs.scaled_to(JobId(0)), 0);
  view.states[0].placement = on({2, 2});
  view.states[0].last_change_s = 60;
  view.now = 80;  // still changing over
  beliefs.observe(view);
  EXPECT_EQ(beliefs.scaled_to(JobId(0)), 0);
  view.now = 120;
  beliefs.observe(view);
  EXPECT_EQ(beliefs.scaled_to(JobId(0)), 4);
  EXPECT_EQ(beliefs.scaled_to(JobId(0), GpuType(0)), 4);
  EXPECT_EQ(beliefs.scaled_to(JobId(0), GpuType(1)), 0);
  view.states[0].placement = on({1});
  beliefs.observe(view);
  EXPECT_EQ(beliefs.scaled_to(JobId(0)), 4);  // it has been there
  view.ids = {};
  beliefs.observe(view);
  view.ids = {JobId(0)};
  EXPECT_EQ(beliefs.scaled_to(JobId(0)), 0);  // gone is forgotten
}

TEST(Beliefs, GoByTheThroughputWhereStepsAreNotMeasured) {
  const Fleet fleet = testing::plain_fleet(4, 4);
  const testing::PlainThroughput throughput({2});
  FakeView view(fleet, throughput);
  view.jobs = {testing::rigid_job("a", 0, 1, 100)};
  view.states.resize(1);
  view.ids = {JobId(0)};
  Beliefs beliefs(true);
  beliefs.observe(view);
  EXPECT_DOUBLE_EQ(beliefs.goodput(view, JobId(0), GpuType(0), 2, 5), 10);
  EXPECT_DOUBLE_EQ(beliefs.near_goodput(view, JobId(0), GpuType(0), 3), 6);
}

TEST(Beliefs, FitWhatAJobShows) {
  const testing::TinyProfiles tiny;
  const Fleet fleet = testing::plain_fleet(4, 4);
  Workload workload{"w", {testing::rigid_job("a", 0, 1, 100)}};
  workload.jobs[0].type = "tiny";
  const auto source = pollux_throughput(tiny.folder(), fleet, workload, BatchMode::kAdaptive);
  ASSERT_TRUE(source.ok()) << message_of(source.status());
  FakeView view(fleet, **source);
  view.jobs = workload.jobs;
  view.states.resize(1);
  view.ids = {JobId(0)};
  Beliefs fitted(true), oracle(false);
  fitted.observe(view);
  EXPECT_DOUBLE_EQ(fitted.goodput(view, JobId(0), GpuType(0), 2, 3), 3);  // nothing seen: proportional
  view.states[0].placement = on({1});
  view.now = 100;
  fitted.observe(view);
  oracle.observe(view);
  const auto truth = [&](std::vector<int> gpus) {
    return (*source)->placed_rate(view.jobs[0], on(std::move(gpus)), 0).per_s;
  };
  // On one GPU it believes about what it saw; that a second one costs nothing to talk to.
  const double alone = fitted.goodput(view, JobId(0), GpuType(0), 1, 1);
  EXPECT_NEAR(alone, truth({1}), 0.1 * truth({1}));
  EXPECT_NEAR(fitted.goodput(view, JobId(0), GpuType(0), 1, 2), fitted.goodput(view, JobId(0), GpuType(0), 2, 2), 1e-6);
  EXPECT_GT(fitted.goodput(view, JobId(0), GpuType(0), 2, 2), 1.5 * alone);
  EXPECT_DOUBLE_EQ(oracle.goodput(view, JobId(0), GpuType(0), 2, 2), truth({1, 1}));
  EXPECT_DOUBLE_EQ(oracle.near_goodput(view, JobId(0), GpuType(0), 2), truth({2}));
  // Once seen it knows better.
  view.states[0].placement = on({1, 1});
  fitted.observe(view);
  EXPECT_NEAR(fitted.goodput(view, JobId(0), GpuType(0), 2, 2), truth({1, 1}), 0.1 * truth({1, 1}));
}

}  // namespace
}  // namespace scalai::policy
