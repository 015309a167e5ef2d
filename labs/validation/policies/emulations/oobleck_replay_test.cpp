#include "labs/validation/policies/emulations/oobleck_replay.h"

#include "gtest/gtest.h"
#include "labs/validation/policies/emulations/event_heap.h"
#include "ptc/base/file.h"

namespace scalai::policy::validation {
namespace {

using Kind = FleetEvent::Kind;

FleetEvent host_event(double at_s, Kind kind, int host) {
  FleetEvent event;
  event.at_s = at_s;
  event.kind = kind;
  event.hosts = {HostId(host)};
  return event;
}

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
  EventHeap<Keyed> heap;
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

// As many samples a second as hosts, steps of 6 of them; a change costs 2 s, a fatal loss 5 s.
OobleckSetup setup_of(OobleckSystem system, const Availability& trace) {
  OobleckSetup setup;
  setup.system = system;
  setup.availability = &trace;
  setup.hosts = 4;
  setup.samples_per_s = [](int hosts) { return static_cast<double>(hosts); };
  setup.samples_per_step = 6;
  setup.change_s = [](int) { return 2.0; };
  setup.fatal_s = 5;
  setup.host_ready_s = 45;
  setup.stages = 2;
  return setup;
}

Availability three_hosts_lose_one() {
  Availability trace;
  trace.up = {1, 1, 1, 0};
  trace.events = {host_event(60, Kind::kTaken, 2), host_event(70.5, Kind::kUp, 3)};
  return trace;
}

// Ready at 45, together at 47, steps of 2 s: 49 … 59 are six. Lost at 60; until all are together again at 62 the job
// goes on as if nothing had happened: 61. Then steps of 3 s: 65 and 68. The last event ends the run.
TEST(Replay, OfTemplatesByHand) {
  const Availability trace = three_hosts_lose_one();
  const auto result = replay_oobleck(setup_of(OobleckSystem::kOobleck, trace));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 9);
  EXPECT_EQ(result->losses, 1);
  EXPECT_EQ(result->fatal, 1);
  EXPECT_DOUBLE_EQ(result->from_s, 47);
  EXPECT_NEAR(result->to_s, 68, 1e-9);
  EXPECT_NEAR(result->samples, 54, 1e-9);
  EXPECT_NEAR(result->samples_per_s, 54.0 / 21, 1e-9);
  EXPECT_NEAR(result->mean_hosts, (60 * 3 + 8 * 2) / 68.0, 1e-9);
}

// With a cost of 10 s the second of two losses finds the hosts assigned by the first rendezvous: the job stops for
// good.
TEST(Replay, StopsAtASecondLossInARendezvous) {
  Availability trace;
  trace.up = {1, 1, 1, 1};
  trace.events = {host_event(60, Kind::kTaken, 3), host_event(65, Kind::kTaken, 2), host_event(500, Kind::kTaken, 1)};
  OobleckSetup setup = setup_of(OobleckSystem::kOobleck, trace);
  setup.change_s = [](int) { return 10.0; };
  const auto result = replay_oobleck(setup);
  ASSERT_TRUE(result.ok());
  // Together at 55, steps of 1.5 s: 56.5 … 68.5 are nine; together at 70 on two hosts: 73; at 75 it stops.
  EXPECT_EQ(result->steps, 10);
  EXPECT_NEAR(result->to_s, 73, 1e-9);
}

// Together at 46 (2 s less the write of 1 s); steps of 2 s and a checkpoint after each second one: 48, 50 | 53, 55 |
// 58, 60 |. The loss at 60 comes before the step's end: it takes back the step of 58. Together at 61: 64, 67 |.
TEST(Replay, OfCheckpointRestartByHand) {
  const Availability trace = three_hosts_lose_one();
  OobleckSetup setup = setup_of(OobleckSystem::kVaruna, trace);
  setup.checkpoint_every_steps = 2;
  setup.checkpoint_s = 1;
  const auto result = replay_oobleck(setup);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 8);  // the published count keeps the one taken back
  EXPECT_NEAR(result->samples, 7 * 6, 1e-9);
  EXPECT_NEAR(result->lost_samples, 6, 1e-9);
  EXPECT_NEAR(result->from_s, 46, 1e-9);
  setup.rolls_back = false;
  const auto kind = replay_oobleck(setup);
  ASSERT_TRUE(kind.ok());
  EXPECT_NEAR(kind->samples, 8 * 6, 1e-9);
}

// Lost at 60.5, while the checkpoint behind the sixth step is written: it fails and takes its two steps back. Together
// at 61.5. The first step after a loss is followed by a checkpoint, though it is the fifth: 64.5 |, 68.5.
TEST(Replay, WritesACheckpointAfterTheFirstStepBehindALoss) {
  Availability trace = three_hosts_lose_one();
  trace.events[0].at_s = 60.5;
  OobleckSetup setup = setup_of(OobleckSystem::kVaruna, trace);
  setup.checkpoint_every_steps = 2;
  setup.checkpoint_s = 1;
  const auto result = replay_oobleck(setup);
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
  trace.events = {host_event(81, Kind::kTaken, 1), host_event(100, Kind::kTaken, 2)};
  const auto result = replay_oobleck(setup_of(OobleckSystem::kBamboo, trace));
  ASSERT_TRUE(result.ok());
  // Together at 50 (5 s), steps of 1.5 s: 51.5 … 80 are 20 of them; the 21st would end at 81.5 and is redone by
  // floor(0.5 x 500 ms): 81.75. Two seconds to rebalance: 83.75, three hosts are one pipeline, steps of 2 s: 85.75 …
  // 99.75.
  EXPECT_EQ(result->steps, 21 + 8);
  EXPECT_EQ(result->fatal, 0);
  EXPECT_NEAR(result->to_s, 99.75, 1e-9);
}

TEST(Replay, OfRedundancyIsFatalWithoutANeighbour) {
  Availability trace;
  trace.up = {1, 1, 1, 1};
  trace.events = {host_event(81, Kind::kTaken, 1), host_event(81.2, Kind::kTaken, 0), host_event(100, Kind::kTaken, 2)};
  const auto result = replay_oobleck(setup_of(OobleckSystem::kBamboo, trace));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->fatal, 1);
}

TEST(Replay, NeedsEvents) {
  Availability trace;
  trace.up = {0, 0, 0, 0};
  EXPECT_FALSE(replay_oobleck(setup_of(OobleckSystem::kOobleck, trace)).ok());
}

TEST(Replay, TakesTablesAndTheArtifactsConstants) {
  const std::string rates = ::testing::TempDir() + "/replay_rates.csv",
                    costs = ::testing::TempDir() + "/replay_costs.csv";
  ASSERT_TRUE(
      write_file(rates, "system,model,active_nodes,samples_per_s\nvaruna,BERT-large,20,7\nvaruna,GPT-3-6.7b,20,3\n")
          .ok());
  ASSERT_TRUE(write_file(costs,
                         "system,model,samples_per_step,local_reconfig_s,checkpoint_s,checkpoint_every_iters,"
                         "global_rendezvous_s\nvaruna,BERT-large,8192,76,15.8,10,\nvaruna,GPT-3-6.7b,1024,701,120,8,\n")
                  .ok());
  const auto bert = oobleck_setup("varuna", "BERT-large", rates, costs);
  ASSERT_TRUE(bert.ok()) << bert.status().ToString();
  EXPECT_EQ(bert->samples_per_s(1), 7);  // as its authors have it
  EXPECT_EQ(bert->host_ready_s, 45);
  EXPECT_EQ(bert->checkpoint_s, 15.8);
  EXPECT_FALSE(bert->rolls_back);
  EXPECT_EQ(bert->change_s(0), 76);
  EXPECT_EQ(bert->change_s(30), 71.3);
  EXPECT_EQ(bert->change_s(27), 49.1);
  EXPECT_NEAR(bert->change_s(15), 71.3, 1e-9);
  const auto gpt = oobleck_setup("varuna", "GPT-3-6_7b", rates, costs);
  ASSERT_TRUE(gpt.ok()) << gpt.status().ToString();
  EXPECT_TRUE(gpt->rolls_back);
  EXPECT_EQ(gpt->change_s(27), 701);
  EXPECT_EQ(gpt->checkpoint_every_steps, 8);
  EXPECT_FALSE(oobleck_setup("bamboo", "GPT-3-6.7b", rates, costs).ok());
}

}  // namespace
}  // namespace scalai::policy::validation
