#include "sim/jobs/fluid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::jobs {
namespace fluid_test {

using ::testing::DoubleEq;
using ::testing::HasSubstr;

// All active jobs have equal shares of the cluster's one type, each at most all the time.
class Equal final : public policy::FluidPolicy {
 public:
  explicit Equal(double times = 1) : times_(times) {}
  policy::PolicyTraits traits() const override { return {}; }
  absl::StatusOr<policy::Decision> decide(const policy::View&, std::span<const policy::Event>) override {
    return policy::Decision{};
  }
  absl::StatusOr<std::vector<policy::JobShare>> shares(const policy::View& view) override {
    double wanted = 0;
    for (const policy::JobId id : view.active()) wanted += view.job(id).gpus;
    const double share = std::min(1.0, view.capacity(policy::GpuType(0)) / wanted) * times_;
    std::vector<policy::JobShare> list;
    for (const policy::JobId id : view.active()) {
      const policy::Job& job = view.job(id);
      if (share > 0) {
        list.push_back(
            {id, policy::GpuType(0), share, view.throughput().rate(job, policy::GpuType(0), job.gpus, 0).per_s, false});
      }
    }
    return list;
  }

 private:
  double times_;
};

// Two GPUs at 3.6 USD an hour.
struct Bench {
  policy::Fleet fleet = policy::testing::plain_fleet(2, 1, 3.6);
  policy::Workload workload;
  policy::Availability availability;
  Options options;
  policy::testing::PlainThroughput throughput;

  absl::StatusOr<policy::Outcome> play(Equal policy = Equal()) {
    const auto changes = make_constant_changes({});
    return run({.workload = &workload,
                .fleet = &fleet,
                .availability = &availability,
                .throughput = &throughput,
                .policy = &policy,
                .changes = changes.get(),
                .options = options,
                .watcher = {}});
  }
};

// a and b of two GPUs have half of the time: b, of 50 s, ends at 100 s. a has 50 s left then, alone until c comes at
// 120 s, and 30 s of these left, which take until 180 s. c has 30 of its 40 s done by then.
TEST(Fluid, SharesByHand) {
  Bench bench;
  bench.workload.jobs = {policy::testing::rigid_job("a", 0, 2, 100), policy::testing::rigid_job("b", 0, 2, 50),
                         policy::testing::rigid_job("c", 120, 2, 40)};
  const auto outcome = bench.play();
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_THAT(outcome->jobs[1].finish_s, DoubleEq(100));
  EXPECT_THAT(outcome->jobs[0].finish_s, DoubleEq(180));
  EXPECT_THAT(outcome->jobs[2].finish_s, DoubleEq(190));
  EXPECT_EQ(outcome->jobs[2].first_start_s, 120);
  EXPECT_THAT(outcome->jobs[0].attained_gpu_s, DoubleEq(200)) << "its work, whatever its shares";
  EXPECT_THAT(outcome->jobs[0].executed_s, DoubleEq(180));
  EXPECT_THAT(outcome->training_gpu_s, DoubleEq(2 * 190));
  EXPECT_THAT(outcome->up_gpu_s, DoubleEq(2 * 190));
  EXPECT_NEAR(outcome->cost, 2 * 190 * 0.001, 1e-12);
  EXPECT_NEAR(outcome->jobs[0].cost, 200 * 0.001, 1e-12);
  EXPECT_EQ(outcome->jobs[0].restarts, 0);
}

// One of two GPUs is away from 50 to 150 s: a job of one GPU and 100 s beside another one.
TEST(Fluid, HostsThatGoTakeTheirShare) {
  Bench bench;
  bench.workload.jobs = {policy::testing::rigid_job("a", 0, 1, 100), policy::testing::rigid_job("b", 0, 1, 100)};
  using Kind = policy::FleetEvent::Kind;
  bench.availability.events = {{.at_s = 50, .kind = Kind::kFailed, .hosts = {HostId(1)}},
                               {.at_s = 130, .kind = Kind::kUp, .hosts = {HostId(1)}}};
  const auto outcome = bench.play();
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_THAT(outcome->jobs[0].finish_s, DoubleEq(140)) << "50 s whole, 80 s at half, 10 s whole";
  EXPECT_THAT(outcome->jobs[1].finish_s, DoubleEq(140));
  EXPECT_THAT(outcome->up_gpu_s, DoubleEq(2 * 140 - 80));
}

TEST(Fluid, WindowsAndEnds) {
  Bench bench;
  bench.workload.jobs = {policy::testing::rigid_job("a", 0, 2, 100), policy::testing::rigid_job("large", 0, 3, 10),
                         policy::testing::rigid_job("b", 10, 2, 100)};
  bench.options.window = policy::Window{.from_job = 0, .to_job = 1};
  auto outcome = bench.play();
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  EXPECT_THAT(outcome->end_s, DoubleEq(190)) << "a has 90 s left at 10 s, at half";
  EXPECT_EQ(outcome->jobs[1].end, policy::JobEnd::kTooLarge);
  EXPECT_EQ(outcome->jobs[2].end, policy::JobEnd::kUnfinished);
  EXPECT_THAT(outcome->jobs[2].work_done, DoubleEq(90));
  bench.options.window.reset();
  bench.options.until_s = 40;
  outcome = bench.play();
  EXPECT_EQ(outcome->end_s, 40);
  EXPECT_EQ(outcome->jobs[0].end, policy::JobEnd::kUnfinished);
  EXPECT_THAT(outcome->jobs[0].work_done, DoubleEq(25));
}

// Traces count from 1970: what is left of a job may take less than two moments of such a size are apart.
TEST(Fluid, LateTimesEnd) {
  Random random(1);
  Bench bench;
  for (int k = 0; k < 30; ++k) {
    bench.workload.jobs.push_back(policy::testing::rigid_job(std::to_string(k), 1700000000.3 + k / 1.7, 1 + k % 2,
                                                             1 + static_cast<double>(random.below(400)) / 103));
  }
  const auto outcome = bench.play();
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  for (const policy::JobRecord& job : outcome->jobs) EXPECT_EQ(job.end, policy::JobEnd::kFinished);
}

TEST(Fluid, SharesBeyondTheGpusAreAnError) {
  Bench bench;
  bench.workload.jobs = {policy::testing::rigid_job("a", 0, 2, 100)};
  EXPECT_THAT(message_of(bench.play(Equal(1.1)).status()), HasSubstr("shares of 2.2 GPUs of type gpu, of 2"));
}

}  // namespace fluid_test
}  // namespace scalai::jobs
