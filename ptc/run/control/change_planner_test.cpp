#include "ptc/run/control/internal/change_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ptc/run/control/testing/parts_fixture.h"

namespace scalai::control {
namespace {

using testing::device_ids;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Parts;
using testing::sized_job;

class ChangePlannerTest : public ::testing::Test {
 protected:
  ChangePlanner planner(const std::string& strategy) {
    strategy_ = scenario::find_strategy(strategy, {}).value();
    return {parts_.scenario, strategy_, parts_.condition, /*check_plans=*/true};
  }
  collection::Collection target(const Job& job, size_t config, const std::vector<int>& devices) {
    return scenario::collection_of(*job.spec, job.spec->configs[config].config, device_ids(devices)).value();
  }

  Parts parts_{"until: \"100s\"\n" +
               sized_job("a", "checkpoint { every_steps: 10 } redundancy { copies: 1 every_steps: 4 }") +
               testing::job_text("b",
                                 "gpus: 4 parallel: choose steps: 100 search { objective: \"pay-off\" horizon: "
                                 "\"1h\" } checkpoint { every_steps: 10 }")};
  scenario::Strategy strategy_;
};

TEST_F(ChangePlannerTest, TriesTheLatestCopyFirst) {
  Job& job = parts_.train(0, 0, {0, 1, 2, 3}, 30);
  job.copies.checkpoint = job.copies.redundant = job.state;
  job.copies.checkpoint->step = 20;
  job.copies.redundant->step = 28;
  const std::vector<collection::ExtraHolder> copies = {{.tensor = {}, .box = {}, .host = HostId(2)}};
  job.copies.redundant->copies = std::make_shared<const std::vector<collection::ExtraHolder>>(copies);
  const std::vector<Source> sources = planner("reshard").sources(job);
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].holding.step, 30);
  EXPECT_FALSE(sources[0].restore);
  EXPECT_EQ(sources[1].holding.step, 28);
  EXPECT_EQ(sources[1].residency.extra, copies);
  EXPECT_EQ(sources[2].holding.step, 20);
  EXPECT_TRUE(sources[2].residency.storage);
  EXPECT_EQ(sources[2].residency.lost.size(), 4u) << "no copy in host memory";
}

TEST_F(ChangePlannerTest, AStrategyThatRestartsHasCheckpointsOnly) {
  Job& job = parts_.train(0, 0, {0, 1, 2, 3}, 30);
  EXPECT_THAT(planner("checkpoint-restart").sources(job), IsEmpty());
  job.copies.checkpoint = job.state;
  EXPECT_EQ(planner("checkpoint-restart").sources(job).size(), 1u);
}

TEST_F(ChangePlannerTest, RanksAreMovedOnlyByAStrategyThatPlaces) {
  const Job& job = parts_.train(0, 0, {0, 1, 2, 3});
  const Source source{.holding = job.state, .residency = {}};
  const collection::Collection to = target(job, 1, {6, 7});
  const std::vector<DeviceId> candidates = device_ids({6, 7, 2, 3});
  EXPECT_EQ(planner("tenplex").place_ranks(job, source, to, *job.choice, candidates), device_ids({6, 7}));
  EXPECT_EQ(planner("reshard").place_ranks(job, source, to, *job.choice, candidates), device_ids({2, 3}));
}

TEST_F(ChangePlannerTest, PlansAndRunsAChange) {
  Job& job = parts_.train(0, 0, {0, 1, 2, 3}, 12);
  const Source source{.holding = job.state, .residency = {.lost = {DeviceId(3)}}};
  job.underway = Underway{};
  job.underway->record.index = 2;
  const std::vector<DeviceId> candidates = device_ids({0, 1});
  const auto change = planner("reshard").plan_to(job, source, target(job, 1, {0, 1}), *job.choice, candidates);
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_TRUE(change->plan.feasible());
  const Execute direct = planner("reshard").execution(job, source, *change);
  EXPECT_EQ(direct.reconfiguration, 2);
  EXPECT_EQ(direct.step, 12);
  EXPECT_THAT(direct.gone, ElementsAre(DeviceId(3)));
  EXPECT_THAT(direct.stage, IsEmpty());
  const Execute staged = planner("central").execution(job, source, *change);
  EXPECT_TRUE(staged.upload);
  EXPECT_EQ(staged.hub, HostId(0));
  EXPECT_FALSE(staged.stage.empty());
  EXPECT_FALSE(staged.load.empty());
}

// A job that chooses, on four devices; its configuration is written down by hand.
class PricerTest : public ChangePlannerTest {
 protected:
  PricerTest() : job_(parts_.jobs[1]) {
    const scenario::ParallelChoice& choice = parts_.jobs[0].spec->configs[0];
    job_.choice = std::make_shared<const scenario::ParallelChoice>(choice);
    job_.devices = device_ids({0, 1, 2, 3});
    job_.mode = Mode::kTraining;
    auto built = scenario::collection_of(*job_.spec, choice.config, job_.devices);
    job_.state = {.step = 7, .collection = std::make_shared<collection::Collection>(*std::move(built)), .gone = {}};
    candidate_.config = parts_.jobs[0].spec->configs[1].config;
    candidate_.training = job_.spec->training;
    candidate_.time.step_s = 3;
  }

  Job& job_;
  step::Candidate candidate_;
  const std::vector<DeviceId> usable_ = device_ids({0, 1, 2, 3, 4, 5});
};

TEST_F(PricerTest, AChangeCostsAtLeastTheFixedCosts) {
  const ChangePlanner tenplex = planner("tenplex");
  const std::optional<step::Change> change = tenplex.pricer(job_, usable_)(candidate_);
  ASSERT_TRUE(change.has_value());
  EXPECT_GT(tenplex.least_change_s(), 0);
  EXPECT_GE(change->reconfiguration_s, tenplex.least_change_s());
}

TEST_F(PricerTest, StepsThatARollbackRunsAgainCount) {
  const ChangePlanner restart = planner("checkpoint-restart");
  job_.copies.checkpoint = job_.state;
  const double none = restart.pricer(job_, usable_)(candidate_)->reconfiguration_s;
  job_.copies.checkpoint->step = 2;
  job_.state.gone = {DeviceId(0)};
  EXPECT_DOUBLE_EQ(restart.pricer(job_, usable_)(candidate_)->reconfiguration_s, none + 5 * 3.0);
}

// A planned change runs nothing again, but its state is written first: all of it once.
TEST_F(PricerTest, APlannedRestartWritesFirst) {
  const ChangePlanner restart = planner("checkpoint-restart");
  job_.copies.checkpoint = job_.state;
  const double none_s = restart.pricer(job_, usable_)(candidate_)->reconfiguration_s;
  job_.copies.checkpoint->step = 2;
  const double written_s =
      static_cast<double>(scenario::state_bytes(*job_.spec)) / parts_.condition.cluster().storage_write_bytes_per_s;
  EXPECT_NEAR(restart.pricer(job_, usable_)(candidate_)->reconfiguration_s, none_s + written_s, 1e-9);
}

TEST_F(PricerTest, ThereIsNoChangeWithoutACopyOfTheState) {
  job_.state.gone = {DeviceId(0)};
  EXPECT_FALSE(planner("checkpoint-restart").pricer(job_, usable_)(candidate_).has_value());
}

TEST_F(PricerTest, ASlowDeviceMakesStepsLonger) {
  const ChangePlanner reshard = planner("reshard");
  const auto step_s = [&] {
    return priced(job_, *job_.choice, reshard.hardware_on(job_, *job_.choice, job_.devices)).step_s;
  };
  const double nominal_s = step_s();
  parts_.condition.degrade({.links = {}, .devices = device_ids({2}), .factor = 0.1});
  EXPECT_GT(step_s(), nominal_s);
}

}  // namespace
}  // namespace scalai::control
