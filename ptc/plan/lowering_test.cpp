#include "ptc/plan/lowering.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace {

std::vector<StepKind> kinds(const std::vector<ProgramStep>& program) {
  std::vector<StepKind> result;
  for (const ProgramStep& step : program) result.push_back(step.kind);
  return result;
}

// g0 keeps "v", copies a part of "w" and sends the other part to g1, which loads what was lost.
TEST(Lowering, OneStepOfEachKind) {
  const auto side = [](std::vector<DeviceId> ids, tensor::Cut cut) {
    const int count = static_cast<int>(ids.size());
    return collection_of({{"x", count}}, std::move(ids),
                         {tensor_of("w", {8}, {std::move(cut)}), tensor_of("v", {3}, {}, {{"x", {0}}})});
  };
  tensor::Cut explicit_cut{.axis = "x", .dim = 0, .rule = tensor::SplitRule::kExplicit, .bounds = {0, 2, 8}};
  Case job{.from = side(devices({0, 4}), cut_over("x", 0)), .to = side(devices({0, 1}), explicit_cut)};
  job.residency = {.lost = {DeviceId(4)}, .extra = {}, .storage = true};
  const Plan plan = job.plan();
  const std::vector<ProgramStep> first = lower(plan, DeviceId(0));
  EXPECT_EQ(kinds(first), (std::vector{StepKind::kKeep, StepKind::kCopy, StepKind::kSend}));
  EXPECT_EQ(first[0].bytes, 12);
  EXPECT_EQ(first[1].bytes, 8);
  EXPECT_EQ(first[1].peer, Location::device(DeviceId(0)));
  EXPECT_EQ(first[2].peer, Location::device(DeviceId(1)));
  const std::vector<ProgramStep> second = lower(plan, DeviceId(1));
  EXPECT_EQ(kinds(second), (std::vector{StepKind::kReceive, StepKind::kLoad}));
  EXPECT_EQ(second[0].peer, Location::device(DeviceId(0)));
  EXPECT_EQ(second[1].peer, Location::storage());
  EXPECT_EQ(second[1].bytes, 16);
  EXPECT_TRUE(lower(plan, DeviceId(9)).empty());
}

TEST(Lowering, OneMessageAPeerAndRound) {
  Case job{.from = grid_collection({1, 1, 1}, devices({0})), .to = grid_collection({1, 1, 1}, devices({4}))};
  const Plan plan = job.plan();
  const std::vector<ProgramStep> program = lower(plan, DeviceId(4));
  ASSERT_EQ(program.size(), 1u);
  EXPECT_EQ(program[0].instances.size(), plan.instances().size());
  EXPECT_EQ(program[0].bytes, plan.bytes().cross_host);
  EXPECT_TRUE(std::is_sorted(program[0].instances.begin(), program[0].instances.end()));
}

TEST(Lowering, HostMemoryIsReceivedFrom) {
  Case job{.from = replicas({8}, devices({0})), .to = replicas({8}, devices({5}))};
  job.options = {.name = "tenplex", .in_place = false};
  const std::vector<ProgramStep> program = lower(job.plan(), DeviceId(5));
  ASSERT_EQ(program.size(), 1u);
  EXPECT_EQ(program[0].kind, StepKind::kReceive);
  EXPECT_EQ(program[0].peer, Location::host_memory(HostId(0)));
  EXPECT_TRUE(lower(job.plan(), DeviceId(0)).empty()) << "the host's memory serves, not the device";
}

TEST(Lowering, ARoundWithoutInstancesHasNoHop) {
  Case job{.from = replicas({4}, first_devices(1)), .to = replicas({4}, first_devices(2))};
  EXPECT_EQ(last_hop(job.plan(), 0), 0);
  EXPECT_EQ(last_hop(job.plan(), 1), -1);
}

// Over random plans: every operation is done by its destination, sends and receives match one to one.
TEST(Lowering, ProgramsOfAllDevicesMakeThePlan) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes from = random_sizes(random, 16), to = random_sizes(random, 16);
    Case job{.from = grid_collection(from, random_devices(random, from.world(), 16)),
             .to = grid_collection(to, random_devices(random, to.world(), 16))};
    job.residency.storage = true;
    job.residency.lost.insert(job.from.device_of_rank[0]);
    job.options.round_bytes = seed % 2 == 0 ? 0 : 300;
    const Plan plan = job.plan();
    using Message = std::tuple<int, int, int, int>;  // round, hop, from, to
    std::map<Message, std::vector<int32_t>> sent, received;
    std::set<std::pair<int32_t, int>> done;  // instance, device
    size_t legs = 0;
    for (const Instance& instance : plan.instances()) legs += plan.patterns().legs(instance.pattern).size();
    const Lowering lowering(plan);
    for (int device = 0; device < job.cluster.device_count(); ++device) {
      const std::vector<ProgramStep> program = lowering.program(DeviceId(device));
      EXPECT_TRUE(std::is_sorted(program.begin(), program.end(), [](const ProgramStep& a, const ProgramStep& b) {
        return std::tie(a.round, a.hop, a.kind, a.peer) < std::tie(b.round, b.hop, b.kind, b.peer);
      }));
      for (const ProgramStep& step : program) {
        int64_t bytes = 0;
        for (const int32_t i : step.instances) {
          const Instance& instance = plan.instances()[static_cast<size_t>(i)];
          bytes += instance.box.volume() * 4 * static_cast<int64_t>(plan.tensors_of(instance).size());
          EXPECT_EQ(instance.round, step.round);
          if (step.kind == StepKind::kSend) continue;
          EXPECT_TRUE(done.insert({i, device}).second);
        }
        EXPECT_EQ(bytes, step.bytes);
        if (step.kind == StepKind::kSend) sent[{step.round, step.hop, device, step.peer.index}] = step.instances;
        if (step.kind == StepKind::kReceive) received[{step.round, step.hop, step.peer.index, device}] = step.instances;
      }
    }
    EXPECT_EQ(done.size(), legs);
    EXPECT_EQ(sent, received);
  }
}

}  // namespace
}  // namespace scalai::plan
