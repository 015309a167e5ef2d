// Plans with a memory cap, derived parameters and changes of type: right ones pass, and each way of spoiling them is
// found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ptc/base/testing/share.h"
#include "ptc/plan/interpreter.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/interpreter.h"

namespace scalai::plan {
namespace interpreter_mutations_test {

using tensor::Box;
using testing::HasSubstr;

constexpr InterpreterOptions kAlikeOnce{.most_operations = 0, .devices = 0};

enum class Flavour : uint8_t { kPlain, kCapped, kDerived, kRetyped };

struct Mutant {
  Case job;
  PlanDraft plan;
  Random& random;
  size_t pick(const std::vector<size_t>& list) const {
    return list[static_cast<size_t>(random.below(static_cast<int64_t>(list.size())))];
  }
  Instance& instance(size_t index) { return plan.instances[index]; }
};

// Parameters become fp32, too; moments bf16.
void retype(collection::Collection& collection) {
  for (auto& tensor : collection.tensors) {
    if (tensor.kind == model::StateKind::kParam) tensor.dtype = tensor::DType::kF32;
    if (tensor.kind == model::StateKind::kExpAvg) tensor.dtype = tensor::DType::kBF16;
  }
}

// Nothing when no order keeps the cap.
std::optional<Mutant> random_mutant(Flavour flavour, Random& random) {
  const Sizes from = random_sizes(random, 12), to = random_sizes(random, 12);
  Case job{.from = state_collection(from, random_devices(random, from.world(), 14)),
           .to = state_collection(to, random_devices(random, to.world(), 14))};
  if (flavour == Flavour::kCapped) job.options.memory_cap = random.between(100, 500);
  if (flavour == Flavour::kRetyped) retype(job.to);
  job.options.derive_params = flavour == Flavour::kDerived;
  auto plan = make_plan(job.input());
  if (!plan.ok()) return std::nullopt;
  return Mutant{std::move(job), plan->draft(), random};
}

bool holds(const collection::Collection& collection, TensorId tensor, const Box& box, DeviceId device) {
  std::vector<Box> boxes;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    if (collection.device_of_rank[static_cast<size_t>(rank)] != device) continue;
    for (const auto& piece : collection.pieces(tensor, LogicalRank(rank)).pieces) boxes.push_back(piece.box);
  }
  return subtract(box, boxes).empty();
}

std::vector<size_t> freeing(const PlanDraft& plan) {
  return instances_where(plan, [&](size_t i) { return !frees_of(plan, i).empty(); });
}

struct Mutation {
  std::string name;
  Flavour flavour = Flavour::kPlain;
  std::string says;                    // in the verdict on boxes
  std::function<bool(Mutant&)> apply;  // false: not possible here
  bool fills_memory = true;            // Plan::memory is made to agree with the spoilt plan
};

void expect_found(const std::vector<Mutation>& mutations) {
  const int most = soaking() ? 20 : 10;
  for (const Mutation& mutation : mutations) {
    int applied = 0;
    for (uint64_t seed = 1; seed <= 400 && applied < most; ++seed) {
      SCOPED_TRACE(testing::Message() << mutation.name << ", seed " << seed);
      Random random(seed);
      std::optional<Mutant> mutant = random_mutant(mutation.flavour, random);
      if (!mutant) continue;
      const InterpreterInput oracle = mutant->job.oracle();
      ASSERT_EQ(message_of(interpret(seal(mutant->plan), oracle)), "");
      if (!mutation.apply(*mutant)) continue;
      ++applied;
      if (mutation.fills_memory) {
        fill_bytes(mutant->plan);
        fill_memory(mutant->plan, mutant->job);
      }
      EXPECT_THAT(message_of(interpret(seal(mutant->plan), oracle)), HasSubstr(mutation.says));
      EXPECT_THAT(message_of(interpret(seal(mutant->plan), oracle, kAlikeOnce)), HasSubstr(mutation.says));
      EXPECT_FALSE(interpret_elements(seal(mutant->plan), oracle).ok());
    }
    EXPECT_GE(applied, 10) << mutation.name << " was hardly ever possible";
  }
}

// --- Right plans -----------------------------------------------------------------------------------------------------

TEST(InterpreterMutations, AcceptsCappedDerivedAndRetypedPlans) {
  int frees = 0, rounds = 0, derived = 0, narrowed = 0;
  const int seeds = soaking() ? 300 : 60;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(static_cast<uint64_t>(seed));
    const Sizes from = random_sizes(random, 12), to = random_sizes(random, 12);
    Case job{.from = state_collection(from, random_devices(random, from.world(), 14)),
             .to = state_collection(to, random_devices(random, to.world(), 14))};
    if (random.below(2) == 0) job.options.memory_cap = random.between(100, 500);
    if (random.below(2) == 0) job.options.derive_params = true;
    if (random.below(3) == 0) retype(random.below(2) == 0 ? job.from : job.to);
    const auto plan = make_plan(job.input());
    if (!plan.ok()) continue;
    EXPECT_EQ(message_of(interpret(*plan, job.oracle())), "");
    EXPECT_EQ(message_of(interpret(*plan, job.oracle(), kAlikeOnce)), "");
    EXPECT_EQ(message_of(interpret_elements(*plan, job.oracle())), "");
    rounds += plan->rounds() > 1 ? 1 : 0;
    derived += plan->bytes().derived > 0 ? 1 : 0;
    narrowed += plan->tensors()[2].dtype != plan->tensors()[2].from_dtype ? 1 : 0;
    frees += freeing(plan->draft()).empty() ? 0 : 1;
  }
  EXPECT_GT(frees, seeds / 6);
  EXPECT_GT(rounds, seeds / 15);
  EXPECT_GT(derived, seeds / 6);
  EXPECT_GT(narrowed, seeds / 10);
}

// --- Frees -----------------------------------------------------------------------------------------------------------

// One more instance like that at `index`, which only frees.
void add_free(PlanDraft& plan, size_t index, std::vector<DeviceId> frees) {
  Instance one = plan.instances[index];
  one.pattern = plan.patterns.add({}, frees);
  plan.instances.push_back(one);
}

bool leave_out_a_free(Mutant& m) {
  const std::vector<size_t> list = freeing(m.plan);
  if (list.empty()) return false;
  const size_t at = m.pick(list);
  std::vector<DeviceId> frees = frees_of(m.plan, at);
  frees.erase(frees.begin() + m.random.below(static_cast<int64_t>(frees.size())));
  set_pattern(m.plan, at, legs_of(m.plan, at), frees);
  m.plan.memory_cap *= 4;  // what stays is not to be too much as well
  return true;
}

// The frees stay, the legs go to a round after all others.
bool free_before_the_last_read(Mutant& m) {
  const std::vector<size_t> list = instances_where(m.plan, [&](size_t i) {
    const std::vector<DeviceId> frees = frees_of(m.plan, i);
    const std::vector<Leg> legs = legs_of(m.plan, i);
    return std::any_of(legs.begin(), legs.end(), [&](const Leg& leg) {
      return leg.hop == 0 && std::find(frees.begin(), frees.end(), DeviceId(leg.src.index)) != frees.end();
    });
  });
  if (list.empty()) return false;
  const size_t at = m.pick(list);
  add_free(m.plan, at, frees_of(m.plan, at));
  set_pattern(m.plan, at, legs_of(m.plan, at), {});
  m.instance(at).round = m.plan.rounds++;
  return true;
}

bool free_what_is_kept(Mutant& m) {
  const auto list = instances_where(m.plan, [&](size_t i) { return has_class(m.plan, i, TransferClass::kKept); });
  if (list.empty()) return false;
  const size_t at = m.pick(list);
  add_free(m.plan, at, {legs_of(m.plan, at).front().dst});
  return true;
}

bool free_in_two_rounds(Mutant& m) {
  const std::vector<size_t> list = freeing(m.plan);
  if (list.empty()) return false;
  const size_t at = m.pick(list);
  add_free(m.plan, at, frees_of(m.plan, at));
  m.plan.instances.back().round = m.plan.rounds++;
  return true;
}

// Of an old device, living or not in the old collection.
bool free_what_is_not_held(Mutant& m, bool of_the_old) {
  const size_t at = m.pick(instances_where(m.plan, [](size_t) { return true; }));
  const auto& ids = m.plan.src_devices;
  const DeviceId device(m.random.below(m.job.cluster.device_count()));
  const bool old = std::find(ids.begin(), ids.end(), device) != ids.end();
  const Instance& instance = m.instance(at);
  if (old != of_the_old || holds(m.job.from, m.plan.tensors_of(instance).front(), instance.box, device)) return false;
  add_free(m.plan, at, {device});
  return true;
}

TEST(InterpreterMutations, Frees) {
  expect_found({
      {"a free left out", Flavour::kCapped, "is neither kept nor given back by g", leave_out_a_free},
      {"freed before it is read", Flavour::kCapped, "has given it back in an earlier round", free_before_the_last_read},
      {"freed although kept", Flavour::kCapped, "the device keeps it", free_what_is_kept},
      {"freed in two rounds", Flavour::kCapped, "a part of it is freed twice", free_in_two_rounds},
      {"freed twice in one pattern", Flavour::kCapped, "): freed twice",
       [](Mutant& m) {
         const std::vector<size_t> list = freeing(m.plan);
         if (list.empty()) return false;
         const size_t at = m.pick(list);
         std::vector<DeviceId> frees = frees_of(m.plan, at);
         frees.push_back(frees.front());
         set_pattern(m.plan, at, legs_of(m.plan, at), frees);
         return true;
       }},
      {"freed where it is not held", Flavour::kCapped, "the device does not hold it",
       [](Mutant& m) { return free_what_is_not_held(m, true); }},
      {"freed outside the old collection", Flavour::kCapped, "not a living device of the old collection",
       [](Mutant& m) { return free_what_is_not_held(m, false); }},
      {"freed without a cap", Flavour::kCapped, "a plan without a memory cap frees nothing",
       [](Mutant& m) {
         m.plan.memory_cap = -1;
         return !freeing(m.plan).empty();
       }},
      {"staged under a cap", Flavour::kCapped, "the source does not hold it",
       [](Mutant& m) {
         const auto list =
             instances_where(m.plan, [&](size_t i) { return has_class(m.plan, i, TransferClass::kCrossHost); });
         if (list.empty()) return false;
         const size_t at = m.pick(list);
         std::vector<Leg> legs = legs_of(m.plan, at);
         for (Leg& leg : legs) {
           if (leg.hop > 0 || leg.transfer_class != TransferClass::kCrossHost) continue;
           leg.src = Location::host_memory(m.job.cluster.host_of(DeviceId(leg.src.index)));
           set_pattern(m.plan, at, legs, frees_of(m.plan, at));
           return true;
         }
         return false;
       }},
  });
}

// --- Memory ----------------------------------------------------------------------------------------------------------

bool add_to_memory(Mutant& m, int64_t DeviceMemory::*bytes) {
  auto& memory = m.plan.memory;
  memory[static_cast<size_t>(m.random.below(static_cast<int64_t>(memory.size())))].*bytes += m.random.below(2) * 2 - 1;
  return true;
}

TEST(InterpreterMutations, Memory) {
  expect_found({
      {"before", Flavour::kPlain, "the memory of g", [](Mutant& m) { return add_to_memory(m, &DeviceMemory::before); },
       false},
      {"after", Flavour::kPlain, "the memory of g", [](Mutant& m) { return add_to_memory(m, &DeviceMemory::after); },
       false},
      {"peak", Flavour::kCapped, "the memory of g",
       [](Mutant& m) { return add_to_memory(m, &DeviceMemory::peak_extra); }, false},
      {"all rounds at once", Flavour::kCapped, "the memory of g",
       [](Mutant& m) {
         PlanDraft filled = m.plan;
         for (Instance& instance : filled.instances) instance.round = 0;
         const std::vector<DeviceMemory> said = m.plan.memory;
         fill_memory(filled, m.job);
         const bool differs = filled.memory != said;
         m.plan = std::move(filled);
         m.plan.memory = said;
         return differs;
       },
       false},
      {"a device left out", Flavour::kPlain, "the plan's memory is not that of the living devices",
       [](Mutant& m) {
         m.plan.memory.erase(m.plan.memory.begin() + m.random.below(static_cast<int64_t>(m.plan.memory.size())));
         return true;
       },
       false},
      {"a peak above the cap", Flavour::kCapped, "is above the cap",
       [](Mutant& m) {
         int64_t most = 0;
         for (const DeviceMemory& memory : m.plan.memory) most = std::max(most, memory.peak_extra);
         m.plan.memory_cap = most - 1;
         return most > 0;
       }},
  });
}

// --- Derived parameters and types ------------------------------------------------------------------------------------

std::vector<size_t> deriving(const PlanDraft& plan) {
  return instances_where(plan, [&](size_t i) { return has_class(plan, i, TransferClass::kDerived); });
}

// Something of the master of a derived box comes a round after it.
bool master_later(Mutant& m) {
  const std::vector<size_t> list = deriving(m.plan);
  if (list.empty()) return false;
  const Instance derived = m.instance(m.pick(list));
  const DeviceId device = m.plan.patterns.legs(derived.pattern).front().dst;
  const TensorId master = m.plan.tensor(m.plan.tensors_of(derived).front()).derived_from;
  for (Instance& instance : m.plan.instances) {
    const std::vector<TensorId>& set = m.plan.tensors_of(instance);
    if (std::find(set.begin(), set.end(), master) == set.end() || !intersect(instance.box, derived.box)) continue;
    for (const Leg& leg : m.plan.patterns.legs(instance.pattern)) {
      if (leg.dst != device || leg.transfer_class == TransferClass::kKept) continue;
      instance.round = m.plan.rounds++;
      return true;
    }
  }
  return false;
}

bool derive_without_the_master(Mutant& m) {
  for (size_t i = 0; i < m.plan.instances.size(); ++i) {
    const TensorInfo& tensor = m.plan.tensor(m.plan.tensors_of(m.instance(i)).front());
    if (!tensor.derived_from.valid()) continue;
    std::vector<Leg> legs = legs_of(m.plan, i);
    for (Leg& leg : legs) {
      const bool moved =
          leg.transfer_class == TransferClass::kSameHost || leg.transfer_class == TransferClass::kCrossHost;
      if (!moved || holds(m.job.to, tensor.derived_from, m.instance(i).box, leg.dst)) continue;
      leg = {.transfer_class = TransferClass::kDerived, .hop = 99, .src = Location::device(leg.dst), .dst = leg.dst};
      set_pattern(m.plan, i, legs, {});
      return true;
    }
  }
  return false;
}

// Spoils the legs of an instance that derives.
bool change_derived(Mutant& m, const std::function<void(Leg&)>& change) {
  const std::vector<size_t> list = deriving(m.plan);
  if (list.empty()) return false;
  const size_t at = m.pick(list);
  std::vector<Leg> legs = legs_of(m.plan, at);
  for (Leg& leg : legs) change(leg);
  set_pattern(m.plan, at, legs, {});
  return true;
}

bool change_master(Mutant& m, TensorId (*change)(TensorId param)) {
  const std::vector<size_t> list = deriving(m.plan);
  if (list.empty()) return false;
  for (const TensorId id : m.plan.tensors_of(m.instance(m.pick(list))))
    m.plan.tensors[static_cast<size_t>(id.value)].derived_from = change(id);
  return true;
}

TEST(InterpreterMutations, DerivedParameters) {
  const std::string late = "the device does not have its master by then";
  expect_found({
      {"derived on the hop of its master", Flavour::kDerived, late,
       [](Mutant& m) { return change_derived(m, [](Leg& leg) { leg.hop = 0; }); }},
      {"a master that comes later", Flavour::kDerived, late, master_later},
      {"derived where the master is not", Flavour::kDerived, late, derive_without_the_master},
      {"derived without a master", Flavour::kDerived, "derived, but it has no master",
       [](Mutant& m) { return change_master(m, [](TensorId) { return TensorId(); }); }},
      {"derived from a moment", Flavour::kDerived, "is not its master",
       [](Mutant& m) { return change_master(m, [](TensorId param) { return TensorId(param.value + 2); }); }},
      {"derived from a tensor that is not there", Flavour::kDerived, "there is no tensor that it can be derived from",
       [](Mutant& m) { return change_master(m, [](TensorId) { return TensorId(99); }); }},
      {"derived from another device", Flavour::kDerived, "the class is not true",
       [](Mutant& m) { return change_derived(m, [](Leg& leg) { leg.src.index = leg.src.index == 0 ? 1 : 0; }); }},
  });
}

TEST(InterpreterMutations, ChangesOfType) {
  expect_found({
      {"kept although its type changes", Flavour::kRetyped, "kept, but its type changes",
       [](Mutant& m) {
         const auto list = instances_where(m.plan, [&](size_t i) {
           return has_class(m.plan, i, TransferClass::kSameDevice) && legs_of(m.plan, i).size() == 1;
         });
         if (list.empty()) return false;
         const size_t at = m.pick(list);
         std::vector<Leg> legs = legs_of(m.plan, at);
         legs.front().transfer_class = TransferClass::kKept;
         set_pattern(m.plan, at, legs, {});
         const TensorInfo& tensor = m.plan.tensor(m.plan.tensors_of(m.instance(at)).front());
         return tensor.dtype != tensor.from_dtype;
       }},
      {"another old type", Flavour::kRetyped, "the plan's tensors are not those of the collections",
       [](Mutant& m) {
         m.plan.tensors[0].from_dtype = m.plan.tensors[0].dtype;
         return true;
       }},
      {"bytes of the wider type", Flavour::kRetyped, "the plan's bytes by class are not the sums",
       [](Mutant& m) {
         const int64_t narrow = m.plan.bytes.cross_host;
         m.plan.bytes.cross_host *= 2;
         return narrow > 0;
       },
       false},
  });
}

// --- Sets, patterns and instances ------------------------------------------------------------------------------------

TEST(InterpreterMutations, WhatInstancesReferTo) {
  const auto some = [](Mutant& m) -> Instance& {
    return m.instance(m.pick(instances_where(m.plan, [](size_t) { return true; })));
  };
  expect_found({
      {"no such pattern", Flavour::kPlain, "there is no pattern",
       [&](Mutant& m) {
         some(m).pattern = m.random.below(2) == 0 ? -1 : m.plan.patterns.size();
         return true;
       },
       false},
      {"no such set", Flavour::kPlain, "there is no tensor set",
       [&](Mutant& m) {
         some(m).tensors = m.random.below(2) == 0 ? -1 : static_cast<int32_t>(m.plan.tensor_sets.size());
         return true;
       },
       false},
      {"no such tensor", Flavour::kPlain, "it has a tensor that is not there",
       [&](Mutant& m) {
         m.plan.tensor_sets[static_cast<size_t>(some(m).tensors)].back() = TensorId(m.random.below(2) == 0 ? -1 : 99);
         return true;
       },
       false},
      {"an empty set", Flavour::kPlain, "it is empty",
       [&](Mutant& m) {
         m.plan.tensor_sets[static_cast<size_t>(some(m).tensors)].clear();
         return true;
       },
       false},
      {"a tensor twice in a set", Flavour::kPlain, "are both written on g",
       [&](Mutant& m) {
         Instance& instance = some(m);
         std::vector<TensorId> set = m.plan.tensors_of(instance);
         set.push_back(set.back());
         m.plan.tensor_sets.push_back(set);
         instance.tensors = static_cast<int32_t>(m.plan.tensor_sets.size()) - 1;
         return true;
       }},
      {"a set without one of its tensors", Flavour::kPlain, "is not complete on g",
       [&](Mutant& m) {
         Instance& instance = some(m);
         std::vector<TensorId> set = m.plan.tensors_of(instance);
         set.pop_back();
         if (set.empty()) return false;
         m.plan.tensor_sets.push_back(set);
         instance.tensors = static_cast<int32_t>(m.plan.tensor_sets.size()) - 1;
         return true;
       }},
      {"no rounds", Flavour::kPlain, "the plan has 0 rounds",
       [](Mutant& m) {
         m.plan.rounds = 0;
         return true;
       }},
  });
}

TEST(InterpreterMutations, SetsHaveOneShape) {
  Case job{.from = collection_of({{"x", 1}}, devices({0}), {tensor_of("a", {4}, {}), tensor_of("b", {2, 2}, {})}),
           .to = collection_of({{"x", 1}}, devices({0}), {tensor_of("a", {4}, {}), tensor_of("b", {2, 2}, {})})};
  PlanDraft plan = job.plan().draft();
  plan.tensor_sets[0] = {TensorId(0), TensorId(1)};
  EXPECT_THAT(message_of(interpret(seal(plan), job.oracle())), HasSubstr("tensor set 0: its tensors differ in shape"));
}

TEST(InterpreterMutations, OnlyFloatingTypesChange) {
  Case job{.from = replicas({4}, devices({0})), .to = replicas({4}, devices({1}))};
  job.from.tensors[0].dtype = tensor::DType::kF64;
  PlanDraft plan = job.plan().draft();
  job.from.tensors[0].dtype = tensor::DType::kI32;
  plan.tensors[0].from_dtype = tensor::DType::kI32;
  fill_bytes(plan);
  fill_memory(plan, job);
  EXPECT_THAT(message_of(interpret(seal(plan), job.oracle())),
              HasSubstr("its type changes, but not between floating types"));
}

}  // namespace interpreter_mutations_test
}  // namespace scalai::plan
