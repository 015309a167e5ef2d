#include "sim/jobs/recovery/steady.h"

#include "gtest/gtest.h"
#include "sim/jobs/recovery/internal/host_events.h"
#include "sim/jobs/recovery/internal/ledger.h"
#include "sim/jobs/recovery/testing/support.h"

namespace scalai::jobs {
namespace steady_test {

using Kind = policy::FleetEvent::Kind;
using testing::all_gpu_hours;
using testing::host_event;
using testing::linear_setup;

policy::RecoveryResult run(const RecoverySetup& setup) {
  const auto result = simulate_steady(setup);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return result.ok() ? *result : policy::RecoveryResult{};
}

// 100 s of training and 10 s of writing; a loss at 250 takes back 30 s; 5 + 20 s later three hosts go on.
TEST(Steady, CheckpointRestartByHand) {
  policy::Availability trace;
  trace.events = {host_event(250, Kind::kFailed, {3})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kCheckpointRestart, trace, 4, 400);
  setup.checkpoints = {.every_s = 100, .write_s = 10};
  setup.costs.detect_s = 5;
  const policy::RecoveryResult result = run(setup);
  EXPECT_NEAR(result.samples, 800 + 300 + 45, 1e-9);
  EXPECT_NEAR(result.lost_samples, 120, 1e-9);
  EXPECT_NEAR(result.ettr, 315.0 / 400, 1e-12);
  EXPECT_NEAR(result.training_gpu_h * 3600, 1145, 1e-9);
  EXPECT_NEAR(result.lost_gpu_h * 3600, 120, 1e-9);
  EXPECT_NEAR(result.checkpoint_gpu_h * 3600, 110, 1e-9);
  EXPECT_NEAR(result.changing_gpu_h * 3600, 75, 1e-9);
  EXPECT_NEAR(all_gpu_hours(result) * 3600, 1450, 1e-9);
  EXPECT_EQ(result.losses, 1);
  EXPECT_EQ(result.restarts, 1);  // the loss; the start is none
  EXPECT_EQ(result.fatal, 1);     // back to a checkpoint
}

// A checkpoint that is being written when a host goes counts for nothing.
TEST(Steady, AHalfWrittenCheckpointIsNone) {
  policy::Availability trace;
  trace.events = {host_event(215, Kind::kFailed, {3})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kCheckpointRestart, trace, 4, 216);
  setup.checkpoints = {.every_s = 100, .write_s = 10};
  EXPECT_NEAR(run(setup).samples, 400, 1e-9);
  setup.until_s = 300;  // nor is the rest of it written later
  EXPECT_NEAR(run(setup).samples, 400 + 3 * (300 - 235), 1e-9);
  trace.events[0].at_s = 220;  // just whole
  setup.until_s = 221;
  EXPECT_NEAR(run(setup).samples, 800, 1e-9);
}

TEST(Steady, ReshardLosesTheStepUnderWay) {
  policy::Availability trace;
  trace.events = {host_event(250.5, Kind::kFailed, {3})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kReshard, trace, 4, 400);
  setup.costs.detect_s = 5;
  EXPECT_NEAR(run(setup).samples, 1000 + 3 * (400 - 275.5), 1e-9);
  setup.costs.step_lost = false;
  EXPECT_NEAR(run(setup).samples, 1002 + 3 * (400 - 275.5), 1e-9);
}

TEST(Steady, ReshardLeavesAtTheNotice) {
  policy::Availability trace;
  trace.events = {host_event(250.5, Kind::kNotice, {3}), host_event(280, Kind::kTaken, {3})};
  const policy::RecoveryResult result = run(linear_setup(RecoveryDesign::kReshard, trace, 4, 400));
  EXPECT_NEAR(result.samples, 1002 + 3 * (400 - 270.5), 1e-9);
  EXPECT_EQ(result.lost_samples, 0);
  EXPECT_EQ(result.losses, 1);
  EXPECT_EQ(result.restarts, 1);
  EXPECT_EQ(result.fatal, 0);
}

// Three hosts hold all but the state of the fourth, which is out after 10 s. Told 40 s ahead, the job trains on four
// hosts until 290.5 − 11 s, then pauses for 20 s; told 10 s ahead it leaves at once; told 9 s ahead it goes back at
// once to the checkpoint of 200 s. Where the three hold all, it leaves when the host goes.
TEST(Steady, ReshardTrainsOnUntilItsStateJustLeavesInTime) {
  policy::Availability trace;
  trace.events = {host_event(250.5, Kind::kNotice, {3}), host_event(290.5, Kind::kTaken, {3})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kReshard, trace, 4, 400);
  setup.checkpoints = {.every_s = 100, .write_s = 0};
  setup.costs.leave_s = [](const HostChange&) { return 10.0; };
  setup.costs.state_survives = [](const HostChange& change) { return change.lost == 0; };
  const auto told = [&](double notice_s) {
    trace.events[0].until_s = trace.events[1].at_s = 250.5 + notice_s;
    return run(setup);
  };
  EXPECT_NEAR(told(40).samples, 4 * 279.5 + 3 * (400 - 299.5), 1e-9);
  EXPECT_NEAR(told(10).samples, 4 * 250.5 + 3 * (400 - 270.5), 1e-9);
  EXPECT_EQ(told(10).lost_samples, 0);
  EXPECT_NEAR(told(9).samples, 800 + 3 * (400 - 270.5), 1e-9);
  EXPECT_NEAR(told(9).lost_samples, 4 * 50.5, 1e-9);
  EXPECT_EQ(told(9).fatal, 1);
  setup.costs.state_survives = nullptr;
  EXPECT_NEAR(told(9).samples, 4 * 259.5 + 3 * (400 - 279.5), 1e-9);
  EXPECT_NEAR(told(40).samples, 4 * 290.5 + 3 * (400 - 310.5), 1e-9);
  EXPECT_EQ(told(40).fatal, 0);
}

// Oobleck's drain is at once, if it is in time.
TEST(Steady, TemplatesLeaveAtOnceOrGoBack) {
  policy::Availability trace;
  trace.events = {host_event(250, Kind::kNotice, {3}), host_event(290, Kind::kTaken, {3})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kTemplates, trace, 4, 400);
  setup.checkpoints = {.every_s = 100, .write_s = 0};
  setup.costs.leave_s = [](const HostChange&) { return 10.0; };
  setup.costs.state_survives = [](const HostChange& change) { return change.lost == 0; };
  trace.events[0].until_s = 290;
  EXPECT_NEAR(run(setup).samples, 4 * 250 + 3 * (400 - 270), 1e-9);
  trace.events[0].until_s = trace.events[1].at_s = 255;
  EXPECT_NEAR(run(setup).samples, 800 + 3 * (400 - 270), 1e-9);
}

// 250.5 s have 1,002 samples, 800 in a checkpoint. Told at 250.5, the job writes for 10 s, then restarts with three
// hosts in 20 s; told 5 s ahead it is not done in time and goes back to 800.
TEST(Steady, CheckpointRestartSavesAtTheNotice) {
  policy::Availability trace;
  trace.events = {host_event(250.5, Kind::kNotice, {3}), host_event(280, Kind::kTaken, {3})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kCheckpointRestart, trace, 4, 370);
  setup.checkpoints = {.every_s = 100, .write_s = 0};
  EXPECT_NEAR(run(setup).samples, 1002 + 3 * (370 - 270.5), 1e-9);
  setup.checkpoints.write_s = 10;  // twice before: 20 s
  EXPECT_NEAR(run(setup).samples, 922 + 3 * (370 - 280.5), 1e-9);
  EXPECT_EQ(run(setup).lost_samples, 0);
  trace.events[1].at_s = 255.5;
  EXPECT_NEAR(run(setup).samples, 800 + 3 * (370 - 275.5), 1e-9);
  setup.on_notice = OnNotice::kWait;
  trace.events[1].at_s = 280;
  EXPECT_NEAR(run(setup).samples, 800 + 3 * (370 - 300), 1e-9);
}

// A host that comes at 150 joins by way of a checkpoint; 30 s later another is lost, and only those count again.
TEST(Steady, CheckpointRestartSavesBeforeHostsJoin) {
  policy::Availability trace;
  trace.up = {1, 1, 0};
  trace.events = {host_event(150, Kind::kUp, {2}), host_event(180, Kind::kFailed, {2})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kCheckpointRestart, trace, 3, 200);
  setup.checkpoints = {.every_s = 1000, .write_s = 0};
  const policy::RecoveryResult result = run(setup);
  EXPECT_NEAR(result.samples, 300, 1e-9);
  EXPECT_NEAR(result.lost_samples, 3 * 10, 1e-9);
}

TEST(Steady, TemplatesLeaveAtTheNoticeAndRedundancyDoesNot) {
  policy::Availability trace;
  trace.events = {host_event(250.5, Kind::kNotice, {3}), host_event(280, Kind::kTaken, {3})};
  EXPECT_EQ(run(linear_setup(RecoveryDesign::kTemplates, trace, 4, 400)).lost_samples, 0);
  EXPECT_EQ(on_notice_of(RecoveryDesign::kRedundancy), OnNotice::kWait);
}

TEST(Steady, ReshardGoesBackWhenTheStateIsGone) {
  policy::Availability trace;
  trace.events = {host_event(250, Kind::kFailed, {2, 3})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kReshard, trace, 4, 400);
  setup.checkpoints = {.every_s = 100, .write_s = 0};
  setup.costs.state_survives = [](const HostChange& change) { return change.lost < 2; };
  EXPECT_NEAR(run(setup).samples, 800 + 2 * 130, 1e-9);
  setup.costs.state_survives = nullptr;
  EXPECT_NEAR(run(setup).samples, 1000 + 2 * 130, 1e-9);
}

// A table that falls: reshard leaves the third host alone, templates take it.
TEST(Steady, ReshardTakesTheNumberThatTrainsFastest) {
  policy::Availability trace;
  trace.up = {1, 1, 1};
  RecoverySetup setup = linear_setup(RecoveryDesign::kReshard, trace, 3, 100);
  setup.samples_per_s = [](int n) { return n == 2 ? 10.0 : 4.0; };
  const policy::RecoveryResult ours = run(setup);
  EXPECT_NEAR(ours.samples, 1000, 1e-9);
  EXPECT_NEAR(ours.idle_gpu_h * 3600, 100, 1e-9);
  setup.design = RecoveryDesign::kTemplates;
  EXPECT_NEAR(run(setup).samples, 400, 1e-9);
}

// A fault that ends the moment it begins takes the state, and the host works on in its place.
TEST(Steady, AHostThatIsBackAtOnceIsTakenOnce) {
  policy::Availability trace;
  trace.events = {host_event(50, Kind::kFailed, {1}), host_event(50, Kind::kUp, {1}),
                  host_event(200, Kind::kFailed, {0})};
  const policy::RecoveryResult result = run(linear_setup(RecoveryDesign::kTemplates, trace, 3, 300));
  EXPECT_EQ(result.restarts, 2);
  EXPECT_NEAR(result.samples, (150 - 2) + (390 - 2) + 160, 1e-9) << "half a step is lost each time, then 20 s";
}

TEST(Steady, HostsJoinWhenThatPays) {
  policy::Availability trace;
  trace.up = {1, 1, 0};
  trace.events = {host_event(50, Kind::kUp, {2})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kReshard, trace, 3, 100);
  EXPECT_NEAR(run(setup).samples, 100 + 3 * 30, 1e-9);
  setup.join_horizon_s = 59;  // one sample a second more for 39 s, against 40 samples
  EXPECT_NEAR(run(setup).samples, 200, 1e-9);
  setup.join_horizon_s = 61;
  EXPECT_NEAR(run(setup).samples, 190, 1e-9);
  setup.costs.host_ready_s = 10;
  EXPECT_NEAR(run(setup).samples, 120 + 3 * 20, 1e-9);
}

// As floating-point numbers (30.1 + 2.3) + 20 is less than 30.1 + (2.3 + 20).
TEST(Steady, AHostThatCameInAPauseJoinsAtItsEnd) {
  policy::Availability trace;
  trace.up = {1, 1, 0};
  trace.events = {host_event(30.1, Kind::kFailed, {1}), host_event(40, Kind::kUp, {2})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kReshard, trace, 3, 100);
  setup.costs.detect_s = 2.3;
  EXPECT_NEAR(run(setup).samples, 60 + 2 * (100 - 52.4 - 20), 1e-9);
}

TEST(Steady, ASecondLossStartsThePauseAnew) {
  policy::Availability trace;
  trace.events = {host_event(50, Kind::kFailed, {3}), host_event(60, Kind::kFailed, {2})};
  EXPECT_NEAR(run(linear_setup(RecoveryDesign::kReshard, trace, 4, 100)).samples, 200 + 2 * 20, 1e-9);
}

// The neighbour's step is half done at 10.5 s: the other half takes 0.75 s; then 20 s to put three hosts in order.
TEST(Steady, RedundancyByHand) {
  policy::Availability trace;
  trace.events = {host_event(10.5, Kind::kFailed, {1})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kRedundancy, trace, 4, 100);
  const policy::RecoveryResult result = run(setup);
  EXPECT_NEAR(result.samples, 44 + 3 * (100 - 31.25), 1e-9);
  EXPECT_EQ(result.fatal, 0);
  EXPECT_EQ(result.lost_samples, 0);
}

TEST(Steady, RedundancyIsFatalForTwoInARow) {
  policy::Availability trace;
  trace.events = {host_event(10.5, Kind::kFailed, {0, 1})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kRedundancy, trace, 4, 100);
  setup.costs.fatal_s = 30;
  const policy::RecoveryResult result = run(setup);
  EXPECT_EQ(result.fatal, 1);
  EXPECT_NEAR(result.lost_samples, 42, 1e-9);
  EXPECT_NEAR(result.samples, 2 * (100 - 40.5), 1e-9);
  setup.costs = {.change_s = [](const HostChange& change) { return change.resumes ? 3.0 : 0.0; }, .fatal_s = -1};
  EXPECT_NEAR(run(setup).samples, 2 * (100 - 13.5), 1e-9);
}

// Of three stages the first two go: the third stands in for the first, and nobody for the second.
TEST(Steady, RedundancyIsFatalWhenTheFallbackIsGoneToo) {
  policy::Availability trace;
  trace.events = {host_event(10.5, Kind::kFailed, {0, 1})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kRedundancy, trace, 3, 100);
  setup.stages = 3;
  EXPECT_EQ(run(setup).fatal, 1);
  trace.events = {host_event(10.5, Kind::kFailed, {0})};
  EXPECT_EQ(run(setup).fatal, 0);
}

// Host 1 is back while host 0 still works for it: without its state it only waits, and its loss is none. That of host
// 2, for which it stood in, is fatal.
TEST(Steady, AHostThatIsBackWaits) {
  policy::Availability trace;
  trace.events = {host_event(10.5, Kind::kFailed, {1}), host_event(10.6, Kind::kUp, {1}),
                  host_event(10.7, Kind::kFailed, {1})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kRedundancy, trace, 6, 100);
  setup.stages = 3;
  EXPECT_EQ(run(setup).fatal, 0);
  trace.events[2] = host_event(10.7, Kind::kFailed, {2});
  EXPECT_EQ(run(setup).fatal, 1);
}

TEST(Steady, SpareSwapByHand) {
  policy::Availability trace;
  trace.events = {host_event(50, Kind::kFailed, {0})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kSpareSwap, trace, 3, 100);
  setup.spares = 1;
  setup.costs.change_s = [](const HostChange& change) { return change.from == 0 ? 0.0 : 10.0; };
  EXPECT_NEAR(run(setup).samples, 80, 1e-9);
  trace.events = {host_event(50, Kind::kFailed, {2})};  // the spare
  const policy::RecoveryResult spare = run(setup);
  EXPECT_NEAR(spare.samples, 200, 1e-9);
  EXPECT_EQ(spare.restarts, 0);
  // No spare is left at 70; host 0 is back at 80.
  trace.events = {host_event(50, Kind::kFailed, {0}), host_event(70, Kind::kFailed, {1}),
                  host_event(80, Kind::kUp, {0})};
  const policy::RecoveryResult none = run(setup);
  EXPECT_NEAR(none.samples, 40, 1e-9);
  EXPECT_EQ(none.restarts, 2);  // at 50 and 80; at 70 it stopped
}

TEST(Steady, RefusesARunOfNoTime) {
  const policy::Availability trace;
  const auto result = simulate_steady(linear_setup(RecoveryDesign::kReshard, trace, 4, 0));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().ToString().find("until="), std::string::npos);
}

TEST(Steady, SaysWhichCostIsNone) {
  policy::Availability trace;
  trace.events = {host_event(50, Kind::kFailed, {0})};
  RecoverySetup setup = linear_setup(RecoveryDesign::kReshard, trace, 4, 100);
  setup.costs.change_s = [](const HostChange& change) { return change.from == 0 ? 0.0 : -1.0; };
  const auto result = simulate_steady(setup);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().ToString().find("from 4 to 3 hosts (1 lost)"), std::string::npos);
}

TEST(HostEvents, OneGoneBeforeItWasUsableNeverIs) {
  policy::Availability trace;
  trace.up = {0, 1};
  trace.events = {host_event(10, Kind::kUp, {0}), host_event(20, Kind::kTaken, {0}), host_event(30, Kind::kUp, {0})};
  std::vector<std::pair<double, int>> usable;
  for (const auto& event : recovery::internal::host_events(trace, 2, 15)) {
    if (event.kind == recovery::internal::HostEvent::Kind::kUsable) usable.emplace_back(event.at_s, event.host);
  }
  EXPECT_EQ(usable, (std::vector<std::pair<double, int>>{{0, 1}, {45, 0}}));
  EXPECT_EQ(recovery::internal::last_event_s(trace), 30);
}

TEST(Ledger, LosesNoMoreThanTheStepUnderWay) {
  RecoverySetup setup;
  setup.samples_per_step = 10;
  recovery::internal::Ledger ledger(setup);
  ledger.set_live(2);
  ledger.set_used(2);
  ledger.set_rate(1);
  ledger.advance(25);
  EXPECT_NEAR(ledger.step_left_s(), 5, 1e-12);
  ledger.lose_step();
  ledger.lose_step();
  const policy::RecoveryResult result = ledger.result();
  EXPECT_NEAR(result.samples, 20, 1e-12);
  EXPECT_NEAR(result.lost_gpu_h * 3600, 10, 1e-12);
}

}  // namespace steady_test
}  // namespace scalai::jobs
