#include "ptc/plan/internal/rounds.h"
#include "ptc/plan/internal/memory_cap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ptc/base/testing/share.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace {

using testing::HasSubstr;

int64_t most_extra(const Plan& plan) {
  int64_t most = 0;
  for (const DeviceMemory& memory : plan.memory()) most = std::max(most, memory.peak_extra);
  return most;
}

// Two devices that hold half of each of some tensors and swap them: rank order turned round.
Case swap(int tensors, tensor::Shape shape) {
  std::vector<collection::LogicalTensor> list;
  for (int i = 0; i < tensors; ++i) list.push_back(tensor_of("w" + std::to_string(i), shape, {cut_over("tp", 0)}));
  Case job{.from = collection_of({{"tp", 2}}, devices({0, 4}), list),
           .to = collection_of({{"tp", 2}}, devices({4, 0}), list)};
  return job;
}

// The known answer: the peak stays at one shard and one chunk, be the chunk a tensor or less.
TEST(MemoryCap, SwapKeepsOneShardAndOneChunk) {
  Case job = swap(8, {64, 4});
  const int64_t shard = int64_t{8} * 32 * 4 * 4;
  EXPECT_EQ(most_extra(job.plan()), shard) << "without a cap both states lie beside each other";
  for (const int64_t chunk : {int64_t{32 * 4 * 4}, int64_t{256}, int64_t{64}, int64_t{16}}) {
    SCOPED_TRACE(testing::Message() << "cap " << chunk);
    job.options.memory_cap = chunk;
    const Plan plan = job.plan();
    EXPECT_LE(most_extra(plan), chunk);
    EXPECT_GE(plan.rounds(), shard / chunk);
    EXPECT_EQ(plan.bytes().cross_host, 2 * shard);
  }
}

TEST(MemoryCap, NothingExtraIsNeededWhenStateOnlyArrivesOrGoes) {
  Case grow{.from = replicas({64}, devices({0})), .to = replicas({64}, devices({0, 4, 5}))};
  grow.options.memory_cap = 0;
  EXPECT_EQ(grow.plan().rounds(), 1);
  Case leave{.from = one_tensor({64}, cut_over("x", 0), devices({0, 4})),
             .to = one_tensor({64}, cut_over("x", 0), devices({0}))};
  leave.options.memory_cap = 0;
  EXPECT_EQ(most_extra(leave.plan()), 0);
}

// Element by element there is always one byte too many on the way: two devices that swap need room for one.
TEST(MemoryCap, TooSmallIsRefusedWithTheSmallestThatWorks) {
  Case job = swap(1, {2});
  job.options.memory_cap = 3;
  const auto refused = make_plan(job.input());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(message_of(refused.status()), HasSubstr("a memory cap of 3 bytes"));
  EXPECT_THAT(message_of(refused.status()), HasSubstr("the smallest cap found to work is 4 bytes"));
  job.options.memory_cap = 4;
  EXPECT_EQ(most_extra(job.plan()), 4);
}

TEST(MemoryCap, ReplicasThatGoAreGivenBackAtOnce) {
  Case job{.from = replicas({8}, devices({0, 1, 4})), .to = replicas({8}, devices({0}))};
  job.options.memory_cap = 0;
  const Plan plan = job.plan();
  std::set<int> freeing;
  for (const int device : {0, 1, 4}) {
    for (const ProgramStep& step : lower(plan, DeviceId(device))) {
      if (step.kind != StepKind::kFree) continue;
      EXPECT_EQ(step.round, 0);
      EXPECT_EQ(step.bytes, 32);
      freeing.insert(device);
    }
  }
  EXPECT_EQ(freeing, (std::set<int>{1, 4}));
}

TEST(MemoryCap, FreesComeLastInTheirRound) {
  Case job = swap(4, {64, 4});
  job.options.memory_cap = 512;
  const Plan plan = job.plan();
  bool freed = false;
  for (const DeviceId device : plan.src_devices()) {
    const std::vector<ProgramStep> program = lower(plan, device);
    for (size_t i = 0; i + 1 < program.size(); ++i) {
      if (program[i].kind != StepKind::kFree) continue;
      freed = true;
      EXPECT_NE(program[i].round, program[i + 1].round);
    }
  }
  EXPECT_TRUE(freed);
}

// Random changes under random caps: the plan keeps the cap (both interpreters recompute it) or names one that works.
TEST(MemoryCap, RandomChangesKeepIt) {
  int refused = 0, kept = 0;
  const int seeds = soaking() ? 150 : 60;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(static_cast<uint64_t>(seed));
    const Sizes from = random_sizes(random, 16), to = random_sizes(random, 16);
    Case job{.from = grid_collection(from, random_devices(random, from.world(), 16)),
             .to = grid_collection(to, random_devices(random, to.world(), 16))};
    job.options.memory_cap = random.below(600);
    const auto plan = make_plan(job.input());
    if (plan.ok()) {
      ++kept;
      EXPECT_LE(most_extra(job.plan()), job.options.memory_cap);
      continue;
    }
    ++refused;
    const std::string message = message_of(plan.status());
    const std::string marker = "found to work is ";
    ASSERT_NE(message.find(marker), std::string::npos) << message;
    job.options.memory_cap = std::stoll(message.substr(message.find(marker) + marker.size()));
    EXPECT_LE(most_extra(job.plan()), job.options.memory_cap);
  }
  EXPECT_GT(kept, seeds * 2 / 3);
  RecordProperty("refused", refused);
}

TEST(RoundBytes, BoundWhatADeviceReceivesInOne) {
  Case job{.from = grid_collection({2, 2, 1}, first_devices(4)), .to = grid_collection({1, 2, 2}, first_devices(4, 4))};
  job.options.round_bytes = 200;
  const Plan plan = job.plan();
  std::map<std::pair<int, int>, std::vector<int64_t>> received;
  for (const Operation& operation : plan.operations())
    received[{operation.round, operation.dst.value}].push_back(operation.bytes);
  for (const auto& [key, bytes] : received) {
    int64_t sum = 0;
    for (const int64_t one : bytes) sum += one;
    EXPECT_TRUE(sum <= 200 || bytes.size() == 1) << "round " << key.first << " device " << key.second;
  }
}

// --- Devices that will soon be gone ----------------------------------------------------------------------------------

// Rows [0, 64) are on g0 (h0) and g4 (h1), [64, 128) on g1 (h0) alone; all go to g5 of h1. Of h0, which leaves,
// only the second half is read, and first.
TEST(Leaving, OnlyWhatIsNowhereElseIsReadAndFirst) {
  const auto w = [](const std::string& name, const std::vector<int>& homes) {
    return tensor_of(name, {64}, {}, {{"x", homes}});
  };
  Case job{.from = collection_of({{"x", 3}}, devices({0, 4, 1}), {w("shared", {0, 1}), w("sole", {2})}),
           .to = collection_of({{"x", 1}}, devices({5}), {w("shared", {0}), w("sole", {0})})};
  EXPECT_EQ(job.plan().rounds(), 1);
  job.leaving = {DeviceId(0), DeviceId(1)};
  const Plan plan = job.plan();
  EXPECT_EQ(plan.rounds(), 2);
  for (const Operation& operation : plan.operations()) {
    const bool sole = plan.tensor(operation.tensor).name == "sole";
    EXPECT_EQ(operation.src, Location::device(DeviceId(sole ? 1 : 4)));
    EXPECT_EQ(operation.round, sole ? 0 : 1);
  }
}

// Replicas on every host: nothing is read of the host that leaves, and there is no round for it.
TEST(Leaving, WhatOthersHoldNeedsNoRound) {
  Case job{
      .from = replicas({64}, devices({0, 4})), .to = replicas({64}, devices({4, 5, 6, 8})), .leaving = {DeviceId(0)}};
  const Plan plan = job.plan();
  EXPECT_EQ(plan.rounds(), 1);
  for (const Operation& operation : plan.operations()) EXPECT_NE(operation.src, Location::device(DeviceId(0)));
}

// Rounds of limited size: those that read the host come before all others of the same receiver.
TEST(Leaving, FirstOfLimitedRounds) {
  const auto w = [](int i, int home) { return tensor_of("w" + std::to_string(i), {64}, {}, {{"x", {home}}}); };
  std::vector<collection::LogicalTensor> before, after;
  for (int i = 0; i < 8; ++i) {
    before.push_back(w(i, i % 2));  // odd ones on the second device, which leaves
    after.push_back(w(i, 0));
  }
  Case job{.from = collection_of({{"x", 2}}, devices({0, 4}), before),
           .to = collection_of({{"x", 1}}, devices({8}), after)};
  job.options.round_bytes = 64 * 4;
  job.leaving = {DeviceId(4)};
  const Plan plan = job.plan();
  EXPECT_EQ(plan.rounds(), 8);
  for (const Operation& operation : plan.operations())
    EXPECT_EQ(operation.round < 4, operation.src == Location::device(DeviceId(4)));
}

}  // namespace
}  // namespace scalai::plan
