#include "sim/jobs/recovery/proactive.h"

#include "gtest/gtest.h"
#include "sim/jobs/recovery/testing/support.h"

namespace scalai::jobs {
namespace proactive_test {

using Kind = policy::FleetEvent::Kind;
using testing::host_event;

LiveputModel two_layouts() {
  LiveputModel model;
  model.samples_per_s = {{{1, 2}, 10}, {{2, 2}, 20}};
  model.process_s = 5;
  model.rendezvous_s = 10;
  return model;
}

policy::Availability four_then_three() {
  policy::Availability trace;
  trace.up = {1, 1, 1, 1};
  trace.events = {host_event(130, Kind::kTaken, {3}), host_event(239, Kind::kUp, {3})};
  return trace;
}

TEST(Proactive, CountsHostsByInterval) {
  policy::Availability trace = four_then_three();
  trace.events.push_back(host_event(240, Kind::kUp, {}));
  const std::vector<HostInterval> intervals = host_intervals(trace, 4, 60, 300);
  ASSERT_EQ(intervals.size(), 5u);
  EXPECT_EQ(intervals[0].in, 4);
  EXPECT_EQ(intervals[1].hosts, 4);
  EXPECT_EQ(intervals[2].out, 1);
  EXPECT_EQ(intervals[2].hosts, 3);
  EXPECT_EQ(intervals[3].hosts, 4);
  EXPECT_EQ(intervals[4].hosts, 4);
}

// Minute 0: start, 15 s. Minute 2: one host less, one pipeline, 5 s to shrink; at 239 s it is back, known when minute 3
// begins.
TEST(Proactive, ByHand) {
  const policy::Availability trace = four_then_three();
  RecoverySetup setup = testing::linear_setup(RecoveryDesign::kProactive, trace, 4, 300);
  setup.liveput = std::make_shared<const Liveput>(two_layouts(), 60);
  setup.foresight = true;
  const auto result = simulate_recovery(setup);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_NEAR(result->samples, 20 * 45 + 20 * 60 + 10 * 55 + 20 * 45 + 20 * 60, 1e-9);
  EXPECT_EQ(result->losses, 1);
  EXPECT_EQ(result->restarts, 2);
  EXPECT_NEAR(testing::all_gpu_hours(*result) * 60, 4 * 4 + 3, 1e-9);
  EXPECT_NEAR(result->from_s, 15, 1e-9);
}

// Without foresight the layout of a minute in which a host goes is cut down to what is left.
TEST(Proactive, CutsDownWhatWasPlanned) {
  const policy::Availability trace = four_then_three();
  RecoverySetup setup = testing::linear_setup(RecoveryDesign::kProactive, trace, 4, 300);
  setup.liveput = std::make_shared<const Liveput>(two_layouts(), 60);
  const std::vector<HostInterval> truth = host_intervals(trace, 4, 60, 300);
  const std::vector<LiveputChoice> choices = plan_intervals(setup, truth);
  ASSERT_EQ(choices.size(), 5u);
  for (size_t i = 0; i < choices.size(); ++i) EXPECT_LE(choices[i].layout.hosts(), truth[i].hosts) << i;
  EXPECT_EQ(choices[2].layout, (PipelineLayout{1, 2}));
  EXPECT_EQ(choices[3].layout, (PipelineLayout{1, 2}));  // who knew that it comes back?
  EXPECT_EQ(choices[4].layout, (PipelineLayout{2, 2}));
}

TEST(Proactive, NeedsLayouts) {
  const policy::Availability trace = four_then_three();
  const RecoverySetup setup = testing::linear_setup(RecoveryDesign::kProactive, trace, 4, 300);
  EXPECT_EQ(simulate_recovery(setup).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace proactive_test
}  // namespace scalai::jobs
