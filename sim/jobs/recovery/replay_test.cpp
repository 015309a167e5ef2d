#include "sim/jobs/recovery/replay.h"

#include "gtest/gtest.h"
#include "sim/jobs/recovery/internal/event_heap.h"
#include "sim/jobs/recovery/testing/support.h"

namespace scalai::sched {
namespace replay_test {

using Kind = FleetEvent::Kind;
using testing::host_event;

struct Keyed {
  int key = 0;
  int tag = 0;
  bool operator<(const Keyed& other) const { return key < other.key; }
};

std::vector<int> tags(const std::vector<Keyed>& events) {
  std::vector<int> result;
  for (const Keyed& event : events) result.push_back(event.tag);
  return result;
}

// The array that CPython 3.11's heapq leaves for the same calls, ties included.
TEST(EventHeap, LeavesThePublishedArray) {
  recovery_internal::EventHeap<Keyed> heap;
  int tag = 0;
  for (const int key : {3, 1, 2, 1, 3, 2, 1, 2, 3, 1}) heap.append({key, tag++});
  heap.heapify();
  EXPECT_EQ(tags(heap.array()), (std::vector<int>{6, 9, 2, 3, 1, 5, 0, 7, 8, 4}));
  heap.push({1, 10});
  heap.push({2, 11});
  EXPECT_EQ(tags(heap.array()), (std::vector<int>{6, 9, 2, 3, 1, 5, 0, 7, 8, 4, 10, 11}));
  std::vector<int> order;
  while (!heap.empty()) order.push_back(heap.pop().tag);
  EXPECT_EQ(order, (std::vector<int>{6, 9, 1, 10, 3, 2, 5, 11, 7, 4, 0, 8}));
}

RecoverySetup published(RecoveryDesign design, const Availability& trace, int hosts) {
  RecoverySetup setup = testing::linear_setup(design, trace, hosts, 0);
  setup.rules = RecoveryRules::kPublished;
  setup.samples_per_step = 6;
  setup.costs.change_s = [](const HostChange&) { return 2.0; };
  setup.costs.fatal_s = 5;
  setup.costs.host_ready_s = 45;
  return setup;
}

Availability three_hosts_lose_one() {
  Availability trace;
  trace.up = {1, 1, 1, 0};
  trace.events = {host_event(60, Kind::kTaken, {2}), host_event(70.5, Kind::kUp, {3})};
  return trace;
}

// Ready at 45, together at 47, steps of 2 s: 49 … 59 are six. Lost at 60; until all are together again at 62 the job
// goes on as if nothing had happened: 61. Then steps of 3 s: 65 and 68. The last event ends the run.
TEST(Replay, OfTemplatesByHand) {
  const Availability trace = three_hosts_lose_one();
  const auto result = replay_published(published(RecoveryDesign::kTemplates, trace, 4));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 9);
  EXPECT_EQ(result->losses, 1);
  EXPECT_EQ(result->fatal, 1);
  EXPECT_DOUBLE_EQ(result->from_s, 47);
  EXPECT_NEAR(result->to_s, 68, 1e-9);
  EXPECT_NEAR(result->samples, 54, 1e-9);
  EXPECT_NEAR(result->samples_per_s, 54.0 / 21, 1e-9);
  EXPECT_NEAR(result->mean_hosts, (60 * 3 + 8 * 2) / 68.0, 1e-9);
  EXPECT_EQ(result->restarts, 1);  // the start is none
  EXPECT_NEAR(testing::all_gpu_hours(*result) * 3600, 60 * 3 + 8 * 2, 1e-6);
  EXPECT_NEAR(result->training_gpu_h * 3600, 13 * 3 + (1 + 6) * 2, 1e-6);
  // Stopped until 45, together at 47; the step that ends at 61 counts, the second from there to 62 is the change's.
  EXPECT_NEAR(result->idle_gpu_h * 3600, 45 * 3, 1e-6);
  EXPECT_NEAR(result->changing_gpu_h * 3600, 2 * 3 + 2, 1e-6);
  EXPECT_EQ(result->lost_gpu_h, 0);
  EXPECT_NEAR(result->ettr, 20.0 / 21, 1e-12);
  std::vector<std::pair<double, double>> phases;
  for (const RecoveryPhase& phase : result->phases) phases.emplace_back(phase.from_s, phase.samples_per_s);
  EXPECT_EQ(phases, (std::vector<std::pair<double, double>>{{45, 0}, {47, 3}, {61, 0}, {62, 2}}));
}

// With a cost of 10 s the second of two losses finds the hosts assigned by the first rendezvous: the job stops for
// good.
TEST(Replay, StopsAtASecondLossInARendezvous) {
  Availability trace;
  trace.up = {1, 1, 1, 1};
  trace.events = {host_event(60, Kind::kTaken, {3}), host_event(65, Kind::kTaken, {2}),
                  host_event(500, Kind::kTaken, {1})};
  RecoverySetup setup = published(RecoveryDesign::kTemplates, trace, 4);
  setup.costs.change_s = [](const HostChange&) { return 10.0; };
  const auto result = replay_published(setup);
  ASSERT_TRUE(result.ok());
  // Together at 55, steps of 1.5 s: 56.5 … 68.5 are nine; together at 70 on two hosts: 73; at 75 it stops.
  EXPECT_EQ(result->steps, 10);
  EXPECT_NEAR(result->to_s, 73, 1e-9);
  // Ready at 45; from 68.5 to 70 nothing that counts is run, by four hosts less those lost.
  EXPECT_NEAR(result->changing_gpu_h * 3600, 10 * 4 + 1.5 * 2, 1e-6);
  EXPECT_NEAR(result->ettr, 16.5 / 18, 1e-12);
  EXPECT_NEAR(testing::all_gpu_hours(*result) * 3600, 60 * 4 + 5 * 3 + 8 * 2, 1e-6);
  ASSERT_FALSE(result->phases.empty());
  EXPECT_EQ(result->phases.back().samples_per_s, 0);
}

// Together at 46 (2 s less the write of 1 s); steps of 2 s and a checkpoint after each second one: 48, 50 | 53, 55 |
// 58, 60 |. The loss at 60 comes before the step's end: it takes back the step of 58. Together at 61: 64, 67 |.
TEST(Replay, OfCheckpointRestartByHand) {
  const Availability trace = three_hosts_lose_one();
  RecoverySetup setup = published(RecoveryDesign::kCheckpointRestart, trace, 4);
  setup.checkpoints = {.every_steps = 2, .every_s = 0, .write_s = 1, .rolls_back = true};
  const auto result = replay_published(setup);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 8);  // the published count keeps the one taken back
  EXPECT_NEAR(result->samples, 7 * 6, 1e-9);
  EXPECT_NEAR(result->lost_samples, 6, 1e-9);
  EXPECT_NEAR(result->from_s, 46, 1e-9);
  EXPECT_NEAR(testing::all_gpu_hours(*result) * 3600, 60 * 3 + (result->to_s - 60) * 2, 1e-6);
  setup.checkpoints.rolls_back = false;
  const auto kind = replay_published(setup);
  ASSERT_TRUE(kind.ok());
  EXPECT_NEAR(kind->samples, 8 * 6, 1e-9);
}

// Lost at 60.5, while the checkpoint behind the sixth step is written: it fails and takes its two steps back. Together
// at 61.5. The first step after a loss is followed by a checkpoint, though it is the fifth: 64.5 |, 68.5.
TEST(Replay, WritesACheckpointAfterTheFirstStepBehindALoss) {
  Availability trace = three_hosts_lose_one();
  trace.events[0].at_s = 60.5;
  RecoverySetup setup = published(RecoveryDesign::kCheckpointRestart, trace, 4);
  setup.checkpoints = {.every_steps = 2, .every_s = 0, .write_s = 1, .rolls_back = true};
  const auto result = replay_published(setup);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 6);
  EXPECT_NEAR(result->samples, 6 * 6, 1e-9);
  EXPECT_NEAR(result->lost_samples, 2 * 6, 1e-9);
  EXPECT_NEAR(result->to_s, 68.5, 1e-9);
}

// Four hosts in two pipelines of two. Host 1 goes in mid-step: host 0 does both, the step is redone by half, and at its
// end the hosts are put in order again (2 of 3 pairs at risk).
TEST(Replay, OfRedundancyByHand) {
  Availability trace;
  trace.up = {1, 1, 1, 1};
  trace.events = {host_event(81, Kind::kTaken, {1}), host_event(100, Kind::kTaken, {2})};
  const auto result = replay_published(published(RecoveryDesign::kRedundancy, trace, 4));
  ASSERT_TRUE(result.ok());
  // Together at 50 (5 s), steps of 1.5 s: 51.5 … 80 are 20 of them; the 21st would end at 81.5 and is redone by
  // floor(0.5 x 500 ms): 81.75. Two seconds to rebalance: 83.75, three hosts are one pipeline, steps of 2 s: 85.75 …
  // 99.75.
  EXPECT_EQ(result->steps, 21 + 8);
  EXPECT_NEAR(result->lost_gpu_h * 3600, 0.25 * 3, 1e-6);  // what is redone
  EXPECT_NEAR(result->changing_gpu_h * 3600, 5 * 4 + 2 * 3, 1e-6);
  EXPECT_NEAR(testing::all_gpu_hours(*result) * 3600, 81 * 4 + 18.75 * 3, 1e-6);
  EXPECT_EQ(result->fatal, 0);
  EXPECT_NEAR(result->to_s, 99.75, 1e-9);
}

TEST(Replay, OfRedundancyIsFatalWithoutANeighbour) {
  Availability trace;
  trace.up = {1, 1, 1, 1};
  trace.events = {host_event(81, Kind::kTaken, {1}), host_event(81.2, Kind::kTaken, {0}),
                  host_event(100, Kind::kTaken, {2})};
  const auto result = replay_published(published(RecoveryDesign::kRedundancy, trace, 4));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->fatal, 1);
}

TEST(Replay, RefusesDesignsWithoutPublishedRules) {
  const Availability trace = three_hosts_lose_one();
  const auto result = replay_published(published(RecoveryDesign::kReshard, trace, 4));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Replay, NeedsEvents) {
  Availability trace;
  trace.up = {0, 0};
  EXPECT_FALSE(replay_published(published(RecoveryDesign::kTemplates, trace, 2)).ok());
}

}  // namespace replay_test
}  // namespace scalai::sched
