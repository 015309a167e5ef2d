// Large plans: tensors alike are looked at once, and some devices alone.

#include "ptc/plan/internal/interpreter_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ptc/base/testing/share.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/interpreter.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::plan {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// 512 devices to 384, with the distributed optimizer's buckets.
const Case& big_job() {
  static const Case job = [] {
    const auto model = model::find_model("llama3-8b").value();
    const auto side = [&](const char* layout) {
      const auto config = collection::parse_layout(layout).value();
      return collection::megatron_collection(model, {.param = tensor::DType::kBF16}, config,
                                             first_devices(config.world()), {.distributed_optimizer_buckets = true})
          .value();
    };
    Case made{.from = side("tp8,pp4,dp16,zero1"), .to = side("tp8,pp4,dp12,zero1")};
    made.cluster = cluster_of(64, 8);
    return made;
  }();
  return job;
}

const Plan& big_plan() {
  static const Plan plan = make_plan(big_job().input()).value();
  return plan;
}

std::string alone(const Plan& plan, const Case& job, const std::vector<DeviceId>& devices) {
  internal::Problems problems;
  const internal::PlanFacts facts(plan, job.oracle(), problems);
  if (problems.none()) internal::check_devices(plan, job.oracle(), facts, devices, problems);
  return message_of(problems.status());
}

std::vector<DeviceId> all_devices(const Plan& plan) {
  return internal::draw_devices(plan, static_cast<int>(plan.memory().size()), 1);
}

TEST(InterpreterSample, SaysWhatItLookedAt) {
  const Plan& plan = big_plan();
  int64_t operations = 0;
  plan.for_each_operation([&](const Operation&) { ++operations; });
  InterpreterReport report;
  EXPECT_EQ(message_of(interpret(plan, big_job().oracle(), {.most_operations = operations}, &report)), "");
  EXPECT_TRUE(report.all);
  EXPECT_EQ(report.operations, operations);
  EXPECT_EQ(report.tensors, static_cast<int64_t>(plan.tensors().size()));
  EXPECT_EQ(report.devices, 0);
  EXPECT_EQ(message_of(interpret(plan, big_job().oracle(), {.most_operations = operations - 1}, &report)), "");
  EXPECT_FALSE(report.all);
  EXPECT_EQ(report.operations, operations);
  EXPECT_LT(report.tensors, static_cast<int64_t>(plan.tensors().size() * 2 / 3));
  EXPECT_EQ(report.devices, 64);
}

TEST(InterpreterSample, DrawsTheSameDevicesFromTheSameSeed) {
  const std::vector<DeviceId> drawn = internal::draw_devices(big_plan(), 64, 5);
  EXPECT_EQ(drawn, internal::draw_devices(big_plan(), 64, 5));
  EXPECT_NE(drawn, internal::draw_devices(big_plan(), 64, 6));
  EXPECT_EQ(std::set<DeviceId>(drawn.begin(), drawn.end()).size(), 64u);
  EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
  EXPECT_EQ(all_devices(big_plan()), first_devices(512));
  EXPECT_EQ(internal::draw_devices(big_plan(), 1000, 1), first_devices(512));
  EXPECT_TRUE(internal::draw_devices(big_plan(), 0, 1).empty());
}

// Spoils one operation of one tensor; the others of its set go on in an instance of their own.
struct Spoilt {
  PlanDraft plan;
  DeviceId device;  // where it goes wrong
};
std::optional<Spoilt> spoil(const PlanDraft& plan, Random& random) {
  Spoilt spoilt{plan, {}};
  const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(plan.instances.size())));
  std::vector<Leg> legs = legs_of(plan, at);
  if (legs.empty()) return std::nullopt;
  const auto one = static_cast<size_t>(random.below(static_cast<int64_t>(legs.size())));
  spoilt.device = legs[one].dst;
  if (random.below(2) == 0) {
    legs.erase(legs.begin() + static_cast<std::ptrdiff_t>(one));
  } else {
    const bool moved = legs[one].transfer_class == TransferClass::kSameHost && legs[one].hop == 0;
    if (!moved) return std::nullopt;
    const int32_t host = legs[one].dst.value / 8 * 8;  // its neighbours are of other tensor-parallel ranks
    legs[one].src.index = host + (legs[one].src.index - host + 1) % 8;
    if (legs[one].src.index == legs[one].dst.value) return std::nullopt;
  }
  std::vector<TensorId> set = plan.tensors_of(plan.instances[at]);
  const TensorId alone = set.back();
  set.pop_back();
  if (!set.empty()) {
    spoilt.plan.instances.push_back(plan.instances[at]);
    spoilt.plan.instances.back().tensors = static_cast<int32_t>(spoilt.plan.tensor_sets.size());
    spoilt.plan.tensor_sets.push_back(set);
  }
  spoilt.plan.instances[at].tensors = static_cast<int32_t>(spoilt.plan.tensor_sets.size());
  spoilt.plan.tensor_sets.push_back({alone});
  set_pattern(spoilt.plan, at, legs, frees_of(plan, at));
  fill_bytes(spoilt.plan);
  return spoilt;
}

TEST(InterpreterSample, FindsOneSpoiltOperationOfABigPlan) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::optional<Spoilt> spoilt = spoil(big_plan().draft(), random);
    if (!spoilt) continue;
    ++found;
    const std::string text =
        message_of(interpret(seal(spoilt->plan), big_job().oracle(), {.most_operations = 0, .devices = 0}));
    EXPECT_THAT(text, AnyOf(HasSubstr("is not complete on"), HasSubstr("does not hold it")));
    EXPECT_NE(alone(seal(spoilt->plan), big_job(), {spoilt->device}), "");
  }
  EXPECT_GT(found, 15);
}

// Every kind of plan, device by device: right ones, and such in which one leg is missing.
TEST(InterpreterSample, DevicesAloneAgreeWithTheOthers) {
  int plans = 0, dropped = 0;
  const int seeds = soaking() ? 300 : 80;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(static_cast<uint64_t>(seed));
    const Sizes from = random_sizes(random, 12), to = random_sizes(random, 12);
    Case job{.from = state_collection(from, random_devices(random, from.world(), 14)),
             .to = state_collection(to, random_devices(random, to.world(), 14))};
    if (random.below(2) == 0) job.options.memory_cap = random.between(100, 500);
    job.options.derive_params = random.below(2) == 0;
    job.residency.storage = random.below(4) == 0;
    for (const DeviceId device : job.from.device_of_rank) {
      const auto& ids = job.to.device_of_rank;
      if (random.below(4) == 0 && std::find(ids.begin(), ids.end(), device) == ids.end())
        job.residency.lost.insert(device);
    }
    const auto plan = make_plan(job.input());
    if (!plan.ok()) continue;
    ++plans;
    EXPECT_EQ(message_of(interpret(*plan, job.oracle())), "");
    EXPECT_EQ(alone(*plan, job, all_devices(*plan)), "");
    if (plan->instances().empty()) continue;
    PlanDraft spoilt = plan->draft();
    const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(plan->instances().size())));
    std::vector<Leg> legs = legs_of(spoilt, at);
    if (legs.empty()) continue;
    ++dropped;
    const DeviceId device = legs.back().dst;
    legs.pop_back();
    set_pattern(spoilt, at, legs, frees_of(spoilt, at));
    fill_bytes(spoilt);
    fill_memory(spoilt, job);
    EXPECT_THAT(alone(seal(spoilt), job, {device}), HasSubstr("is not complete on"));
  }
  EXPECT_GT(plans, seeds / 2);
  EXPECT_GT(dropped, seeds / 3);
}

TEST(InterpreterSample, MemoryOfADeviceAlone) {
  PlanDraft plan = big_plan().draft();
  EXPECT_EQ(alone(seal(plan), big_job(), {DeviceId(7), DeviceId(400)}), "");
  ++plan.memory[7].peak_extra;
  EXPECT_THAT(alone(seal(plan), big_job(), {DeviceId(7)}), HasSubstr("the memory of g7"));
  EXPECT_EQ(alone(seal(plan), big_job(), {DeviceId(8)}), "");
}

}  // namespace
}  // namespace scalai::plan
