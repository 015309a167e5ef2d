#include "ptc/run/control/internal/policy_view.h"

#include <gtest/gtest.h>

#include "ptc/run/control/testing/control_fixture.h"

namespace scalai::control {
namespace {

using policy::GpuType;
using policy::JobId;
using testing::job_text;

constexpr const char* kPriced = R"(
  schema_version: 1
  name: "mixed"
  policy { name: "fifo" }
  cluster {
    name: "mixed"
    hosts { count: 1 gpus: 2 gpu: "a6000-48g" nics: 1 nic: "1GB/s" pcie: "2GB/s" gpu_link: "4GB/s" price_per_hour: 3 }
    hosts { count: 1 gpus: 4 gpu: "h100-80g" nics: 1 nic: "1GB/s" pcie: "2GB/s" gpu_link: "4GB/s" price_per_hour: 8 }
    hosts { count: 1 gpus: 2 gpu: "a6000-48g" nics: 1 nic: "1GB/s" pcie: "2GB/s" gpu_link: "4GB/s" price_per_hour: 3 }
    fabric { kind: STAR }
  }
)";

class ViewTest : public ::testing::Test {
 protected:
  ViewTest() {
    auto read = testing::scenario_of(
        kPriced +
        job_text(
            "a",
            "gpus: 4 min_gpus: 2 max_gpus: 4 steps: 100 weight: 2 submit: \"5s\" deadline: \"1h\" configs { layout: "
            "\"tp2,dp2\" step_time: \"2s\" } configs { layout: \"tp2\" step_time: \"3s\" }") +
        "until: \"2h\"\n" + job_text("b", "gpus: 2 configs { layout: \"tp2\" step_time: \"1s\" }"));
    SCALAI_CHECK(read.ok(), message_of(read.status()));
    scenario_ = *std::move(read);
    strategy_ = scenario::find_strategy("tenplex", scenario_.costs).value();
    view_ = std::make_unique<PolicyView>(scenario_, strategy_);
  }

  scenario::Scenario scenario_;
  scenario::Strategy strategy_;
  std::unique_ptr<PolicyView> view_;
};

TEST_F(ViewTest, TheClusterIsAFleet) {
  const policy::Fleet& fleet = view_->fleet();
  ASSERT_EQ(fleet.types.size(), 2U);
  EXPECT_EQ(fleet.types[0].name, "a6000-48g");
  EXPECT_DOUBLE_EQ(view_->price(GpuType(0)), 1.5);
  EXPECT_DOUBLE_EQ(view_->price(GpuType(1)), 2);
  EXPECT_EQ(fleet.gpus(GpuType(0)), 4);
  EXPECT_EQ(fleet.hosts[2].type, GpuType(0));
  EXPECT_EQ(view_->placement_of(testing::device_ids({2})).type, GpuType(1));
}

TEST_F(ViewTest, JobsAreThoseOfAWorkload) {
  const policy::Job& a = view_->job(JobId(0));
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.submit_s, 5);
  EXPECT_EQ(a.gpus, 4);
  EXPECT_EQ(a.min_gpus, 2);
  EXPECT_EQ(a.max_gpus, 4);
  EXPECT_EQ(a.work, 100);
  EXPECT_EQ(a.duration_s, 200);
  EXPECT_EQ(a.weight, 2);
  EXPECT_EQ(a.deadline_s, 3600);
  EXPECT_EQ(a.batch, 8);
  const policy::Job& b = view_->job(JobId(1));
  EXPECT_EQ(b.work, kEndless);
  EXPECT_EQ(b.duration_s, -1);
  EXPECT_EQ(b.deadline_s, policy::kNever);
  EXPECT_EQ(b.min_gpus, 2);
}

TEST_F(ViewTest, CapacityIsWhatMayBeUsed) {
  view_->set_usable({1, 0, 1, 1, 1, 0, 1, 1});
  EXPECT_EQ(view_->capacity(HostId(0)), 1);
  EXPECT_EQ(view_->capacity(HostId(1)), 3);
  EXPECT_EQ(view_->capacity(GpuType(0)), 3);
  EXPECT_EQ(view_->capacity(GpuType(1)), 3);
}

TEST_F(ViewTest, PlacementIsByHost) {
  const policy::Placement placement = view_->placement_of(testing::device_ids({7, 0, 1}));
  ASSERT_EQ(placement.hosts.size(), 2U);
  EXPECT_EQ(placement.hosts[0].host, HostId(0));
  EXPECT_EQ(placement.hosts[0].gpus, 2);
  EXPECT_EQ(placement.hosts[1].host, HostId(2));
  EXPECT_EQ(placement.type, GpuType(0));
  EXPECT_TRUE(view_->placement_of({}).empty());
}

// Of tenplex: planning 0.1 s, restart 65 s, communicators; then 0.9 of 1 GB/s a host. Communicators of four ranks on
// two hosts, stack stock-2025: clients of the store, new processes, world and data parallelism over the network, rings
// of three steps.
TEST_F(ViewTest, AChangeCostsTheStrategysNumbersAndTheStateOverTheCards) {
  const double communicators = 4 * 1.02e-3 + 0.18 + 2 * (0.03 + 0.2 + 3 * 3 * 0.15e-3 + 16 * 7.24e-9);
  EXPECT_DOUBLE_EQ(view_->change_cost_s(JobId(0), 4), 0.1 + 65 + communicators) << "nothing to move before it ran";
  policy::Progress ran;
  ran.first_start_s = 5;
  ran.placement = view_->placement_of(testing::device_ids({0, 1}));
  view_->set_progress(0, ran);
  const auto bytes = static_cast<double>(model::state_bytes(scenario_.jobs[0].model, scenario_.jobs[0].recipe, false));
  EXPECT_NEAR(view_->change_cost_s(JobId(0), 4), 65.1 + communicators + bytes / 2 / (0.9 * 1e9), 1e-9);
}

}  // namespace
}  // namespace scalai::control
