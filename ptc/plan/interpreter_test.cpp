#include "ptc/plan/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ptc/base/testing/share.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/interpreter.h"
#include "ptc/plan/testing/set_operations.h"

namespace scalai::plan {
namespace interpreter_test {

using tensor::Box;
using testing::HasSubstr;
using testing::Not;

Operation operation(TransferClass transfer_class, int tensor, const Box& box, Location src, int dst) {
  return {.transfer_class = transfer_class,
          .tensor = TensorId(tensor),
          .box = box,
          .src = src,
          .dst = DeviceId(dst),
          .bytes = box.volume() * 4};
}

Location g(int index) { return Location::device(DeviceId(index)); }

// "w" from two halves on g0 and g1 to quarters on g0, g1 and, on the next host, g4 and g5; "step" on all of them.
struct HandMade : Case {
  HandMade() {
    from = collection_of({{"tp", 2}}, devices({0, 1}),
                         {tensor_of("w", {8, 2}, {cut_over("tp", 0)}), tensor_of("step", {}, {})});
    to = collection_of({{"tp", 4}}, devices({0, 1, 4, 5}),
                       {tensor_of("w", {8, 2}, {cut_over("tp", 0)}), tensor_of("step", {}, {})});
    cluster = cluster_of(2, 4);
    const Box scalar = Box::whole({});
    operations = {operation(TransferClass::kSameDevice, 0, {{0, 0}, {2, 2}}, g(0), 0),
                  operation(TransferClass::kSameHost, 0, {{2, 0}, {4, 2}}, g(0), 1),
                  operation(TransferClass::kCrossHost, 0, {{4, 0}, {6, 2}}, g(1), 4),
                  operation(TransferClass::kCrossHost, 0, {{6, 0}, {8, 2}}, g(1), 5),
                  operation(TransferClass::kKept, 1, scalar, g(0), 0),
                  operation(TransferClass::kKept, 1, scalar, g(1), 1),
                  operation(TransferClass::kCrossHost, 1, scalar, g(0), 4),
                  operation(TransferClass::kCrossHost, 1, scalar, g(1), 5)};
  }
  Plan plan_of(const std::vector<Operation>& list) const {
    PlanDraft plan{.src_devices = from.device_of_rank, .dst_devices = to.device_of_rank};
    for (const auto& tensor : to.tensors)
      plan.tensors.push_back({.name = tensor.name, .shape = tensor.shape, .derived_from = {}});
    set_operations(plan, list);
    fill_memory(plan, *this);
    return seal(std::move(plan));
  }
  // What the interpreters say; they agree on right and wrong, also when tensors alike are looked at once.
  std::string verdict(const Plan& plan) const {
    const absl::Status boxes = interpret(plan, oracle());
    EXPECT_EQ(boxes.ok(), interpret_elements(plan, oracle()).ok());
    EXPECT_EQ(boxes.ok(), interpret(plan, oracle(), {.most_operations = 0, .devices = 0}).ok());
    return message_of(boxes);
  }
  std::string verdict(const std::vector<Operation>& list) const { return verdict(plan_of(list)); }
  std::vector<Operation> operations;  // of a correct plan
};

TEST(Interpreter, AcceptsACorrectPlan) {
  const HandMade job;
  EXPECT_EQ(job.verdict(job.operations), "");
}

TEST(Interpreter, NamesOperationTensorAndBox) {
  const HandMade job;
  std::vector<Operation> operations = job.operations;
  operations[2].src = g(0);
  EXPECT_THAT(job.verdict(operations),
              HasSubstr("instance 2 (cross_host, tensor \"w\" [4:6, 0:2], g0 -> g4): the source does not hold it"));
  operations = job.operations;
  operations.erase(operations.begin() + 3);
  EXPECT_THAT(job.verdict(operations), HasSubstr("tensor \"w\" [6:8, 0:2] is not complete on g5"));
}

TEST(Interpreter, StopsAfterTwentyProblems) {
  const HandMade job;
  std::vector<Operation> operations = job.operations;
  for (int i = 0; i < 50; ++i) operations.push_back(operation(TransferClass::kCrossHost, 0, {{4, 0}, {6, 2}}, g(0), 4));
  const std::string text = job.verdict(operations);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 20);
}

TEST(Interpreter, StorageOnlyWhenThereIsOne) {
  HandMade job;
  std::vector<Operation> operations = job.operations;
  operations[2].src = Location::storage();
  operations[2].transfer_class = TransferClass::kFromStorage;
  EXPECT_THAT(job.verdict(operations), HasSubstr("the source does not hold it"));
  job.residency.storage = true;
  EXPECT_EQ(job.verdict(operations), "");
}

TEST(Interpreter, HostMemoryHoldsCopiesAndStagedDevices) {
  HandMade job;
  std::vector<Operation> operations = job.operations;
  operations[2].src = Location::host_memory(HostId(0));  // g1 is staged there
  EXPECT_EQ(job.verdict(operations), "");
  operations[2].src = Location::host_memory(HostId(1));  // neither staged nor copied there
  operations[2].transfer_class = TransferClass::kSameHost;
  EXPECT_THAT(job.verdict(operations), HasSubstr("the source does not hold it"));
  job.residency.extra = {{TensorId(0), Box({3, 0}, {5, 2}), HostId(1)}, {TensorId(0), Box({4, 0}, {7, 2}), HostId(1)}};
  EXPECT_EQ(job.verdict(operations), "") << "two overlapping copies hold it together";
  job.residency.extra.clear();
  PlanDraft plan = job.plan_of(operations).draft();
  plan.planner = "central";
  EXPECT_EQ(job.verdict(seal(plan)), "") << "a central plan stages all devices in one host";
}

TEST(Interpreter, MissingIsExactlyWhatNobodyHolds) {
  HandMade job;
  job.to.device_of_rank = devices({0, 2, 4, 5});
  job.residency.lost = {DeviceId(1)};
  std::vector<Operation> operations = job.operations;
  operations[1].dst = DeviceId(2);
  operations[5] = operation(TransferClass::kSameHost, 1, Box::whole({}), g(0), 2);
  operations[7].src = g(0);
  operations.erase(operations.begin() + 2, operations.begin() + 4);
  PlanDraft plan = job.plan_of(operations).draft();
  EXPECT_THAT(job.verdict(seal(plan)),
              HasSubstr("\"w\" [4:6, 0:2]: what no survivor holds of it is not what is named as missing"));
  plan.missing = {{TensorId(0), Box({4, 0}, {6, 2})}, {TensorId(0), Box({6, 0}, {8, 2})}};
  EXPECT_EQ(job.verdict(seal(plan)), "");
  plan.missing.push_back({TensorId(0), Box({3, 0}, {4, 2})});
  EXPECT_THAT(job.verdict(seal(plan)), HasSubstr("[3:4, 0:2]: named as missing, but a survivor holds a part"));
  plan.missing.back().box = Box({7, 0}, {9, 2});
  EXPECT_THAT(job.verdict(seal(plan)), HasSubstr("missing tensor \"w\" [7:9, 0:2]: the box is empty or not inside"));
  plan.missing.resize(2);
  job.residency.storage = true;
  EXPECT_THAT(job.verdict(seal(plan)), HasSubstr("storage has it"));
}

TEST(Interpreter, PlanOfOtherCollections) {
  HandMade job;
  const Plan correct = job.plan_of(job.operations);
  PlanDraft plan = correct.draft();
  plan.dst_devices.pop_back();
  EXPECT_THAT(job.verdict(seal(plan)), HasSubstr("new devices"));
  plan = correct.draft();
  plan.tensors[0].shape = {8, 3};
  EXPECT_THAT(job.verdict(seal(plan)), HasSubstr("the plan's tensors"));
  job.from.tensors[0].shape = {8, 3};
  EXPECT_THAT(job.verdict(correct), HasSubstr("do not hold the same tensors"));
}

// Two uneven cuts on one dimension, flat cuts after padded ones: boxes and elements work them out in different ways.
TEST(Interpreter, ElementsFollowTheDefinitionOfCuts) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto side = [&random] {
      const int a = static_cast<int>(random.between(1, 3)), b = static_cast<int>(random.between(1, 3));
      const auto rule = std::vector{tensor::SplitRule::kBalanced, tensor::SplitRule::kCeil,
                                    tensor::SplitRule::kPadded}[static_cast<size_t>(random.below(3))];
      const int second = static_cast<int>(random.between(-1, 1));  // -1: flat
      return collection_of({{"a", a}, {"b", b}}, random_devices(random, a * b, 16),
                           {tensor_of("w", {7, 5}, {cut_over("a", 0, rule, 2), cut_over("b", second)})});
    };
    Case job{.from = side(), .to = side()};
    job.plan();
  }
}

// Groups that several parts hold, shares of a bucket, and two axes as one.
TEST(Interpreter, ElementsFollowGroupsBucketsAndProductsOfAxes) {
  int different = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto side = [&] {
      const int a = static_cast<int>(random.between(1, 4)), b = static_cast<int>(random.between(1, 3));
      const std::string axes = std::vector<std::string>{"a", "b", "a+b", "b+a"}[static_cast<size_t>(random.below(4))];
      tensor::Cut cut = cut_over(axes, 0, tensor::SplitRule::kGrouped);
      cut.groups = random.between(1, 4);
      if (random.below(2) == 0) cut = cut_over(axes, tensor::Cut::kFlat, tensor::SplitRule::kBucket);
      cut.start = random.below(5);
      cut.bucket = 72;
      const auto devices = random_devices(random, a * b, 16);
      auto collection = collection_of({{"a", a}, {"b", b}}, devices, {tensor_of("w", {12, 5}, {cut})});
      const bool fits = validate(collection).ok();
      different += fits ? 1 : 0;
      return fits ? collection : replicas({12, 5}, devices);
    };
    Case job{.from = side(), .to = side()};
    job.plan();
  }
  EXPECT_GT(different, 200) << "most of the cuts fit";
}

// --- Mutations: each makes a correct plan wrong in one way ---------------------------------------------------------

bool holds(const collection::Collection& collection, const Operation& operation, DeviceId device) {
  std::vector<Box> boxes;
  for (int rank = 0; rank < collection.ranks(); ++rank) {
    if (collection.device_of_rank[static_cast<size_t>(rank)] != device) continue;
    for (const auto& piece : collection.pieces(operation.tensor, LogicalRank(rank)).pieces) boxes.push_back(piece.box);
  }
  return subtract(operation.box, boxes).empty();
}

TransferClass class_of(const cluster::Cluster& cluster, const Location& src, DeviceId dst) {
  if (src == Location::device(dst)) return TransferClass::kSameDevice;
  return cluster.host_of(DeviceId(src.index)) == cluster.host_of(dst) ? TransferClass::kSameHost
                                                                      : TransferClass::kCrossHost;
}

struct Mutant {
  Case job;
  PlanDraft plan;
  std::vector<Operation> operations;  // of the plan
  size_t at;                          // the one to spoil
  Random& random;
  Operation& victim() { return operations[at]; }
  void reclass() { victim().transfer_class = class_of(job.cluster, victim().src, victim().dst); }
};

struct Mutation {
  std::string name;
  std::function<bool(Mutant&)> apply;  // false: not possible here
  bool by_elements = true;             // single elements show it, too
  bool rebuilds = true;                // the plan from the operations
};

std::vector<Mutation> mutations() {
  return {
      {"drop",
       [](Mutant& m) {
         m.operations.erase(m.operations.begin() + static_cast<long>(m.at));
         return true;
       }},
      {"duplicate",
       [](Mutant& m) {
         m.operations.push_back(Operation(m.victim()));
         return true;
       }},
      {"shift the box",
       [](Mutant& m) {
         if (m.victim().box.rank == 0) return false;
         const auto dim = static_cast<size_t>(m.random.below(m.victim().box.rank));
         const int64_t by = m.random.below(2) == 0 ? 1 : -1;
         m.victim().box.lo[dim] += by;
         m.victim().box.hi[dim] += by;
         return true;
       }},
      {"shrink the box",
       [](Mutant& m) {
         if (m.victim().box.rank == 0 || m.victim().box.extent(0) < 2) return false;
         --m.victim().box.hi[0];
         m.victim().bytes = m.victim().box.volume() * 4;
         return true;
       }},
      {"wrong source",
       [](Mutant& m) {
         const DeviceId device(m.random.below(m.job.cluster.device_count()));
         if (holds(m.job.from, m.victim(), device)) return false;
         m.victim().src = Location::device(device);
         m.reclass();
         return true;
       }},
      {"lost source",
       [](Mutant& m) {
         const DeviceId device(m.victim().src.index);
         const auto& ids = m.plan.dst_devices;
         if (std::find(ids.begin(), ids.end(), device) != ids.end()) return false;
         m.job.residency.lost.insert(device);
         return true;
       }},
      {"memory of a host that has no copy",
       [](Mutant& m) {
         const HostId host(m.random.below(static_cast<int64_t>(m.job.cluster.hosts.size())));
         for (const DeviceId device : m.job.cluster.devices_of(host)) {
           for (int rank = 0; rank < m.job.from.ranks(); ++rank) {
             if (m.job.from.device_of_rank[static_cast<size_t>(rank)] == device) return false;
           }
         }
         m.victim().src = Location::host_memory(host);
         const bool same = host == m.job.cluster.host_of(m.victim().dst);
         m.victim().transfer_class = same ? TransferClass::kSameHost : TransferClass::kCrossHost;
         return true;
       }},
      {"storage that is not there",
       [](Mutant& m) {
         m.victim().src = Location::storage();
         m.victim().transfer_class = TransferClass::kFromStorage;
         return true;
       }},
      {"wrong class",
       [](Mutant& m) {
         TransferClass& transfer_class = m.victim().transfer_class;
         transfer_class =
             transfer_class == TransferClass::kCrossHost ? TransferClass::kSameHost : TransferClass::kCrossHost;
         return true;
       }},
      {"wrong bytes",
       [](Mutant& m) {
         ++m.victim().bytes;
         return true;
       }},
      {"wrong sums",
       [](Mutant& m) {
         ++m.plan.bytes.of(m.victim().transfer_class);
         return true;
       },
       true, false},
      {"wrong destination",
       [](Mutant& m) {
         const auto& ids = m.plan.dst_devices;
         const DeviceId device = ids[static_cast<size_t>(m.random.below(static_cast<int64_t>(ids.size())))];
         if (device == m.victim().dst) return false;
         m.victim().dst = device;
         m.reclass();
         return true;
       }},
      {"destination outside the new collection",
       [](Mutant& m) {
         const DeviceId device(m.random.below(m.job.cluster.device_count()));
         if (std::count(m.plan.dst_devices.begin(), m.plan.dst_devices.end(), device) != 0) return false;
         m.victim().dst = device;
         m.reclass();
         return true;
       }},
      {"kept, but only a part of the old box",
       [](Mutant& m) {
         if (m.victim().transfer_class != TransferClass::kSameDevice) return false;
         m.victim().transfer_class = TransferClass::kKept;
         return true;
       },
       false},
      {"two boxes swapped",
       [](Mutant& m) {
         for (Operation& other : m.operations) {
           if (other.tensor != m.victim().tensor || other.dst == m.victim().dst || other.box == m.victim().box)
             continue;
           std::swap(other.box, m.victim().box);
           std::swap(other.bytes, m.victim().bytes);
           return true;
         }
         return false;
       }},
      {"another tensor of the same shape",
       [](Mutant& m) {
         const TensorId other(m.random.below(static_cast<int64_t>(m.plan.tensors.size())));
         const auto shape_of = [&](TensorId id) { return m.plan.tensors[static_cast<size_t>(id.value)].shape; };
         if (other == m.victim().tensor || shape_of(other) != shape_of(m.victim().tensor)) return false;
         m.victim().tensor = other;
         return true;
       }},
      {"no such round",
       [](Mutant& m) {
         m.victim().round = m.random.below(2) == 0 ? -1 : m.plan.rounds;
         return true;
       }},
      {"named as missing although held",
       [](Mutant& m) {
         m.plan.missing.push_back({m.victim().tensor, m.victim().box});
         m.operations.erase(m.operations.begin() + static_cast<long>(m.at));
         return true;
       }},
  };
}

Mutant random_mutant(Random& random) {
  const Sizes from = random_sizes(random, 12), to = random_sizes(random, 12);
  Case job{.from = grid_collection(from, random_devices(random, from.world(), 12)),
           .to = grid_collection(to, random_devices(random, to.world(), 16))};
  job.cluster = cluster_of(5, 4);  // the last host has neither old nor new devices
  const Plan plan = make_plan(job.input()).value();
  std::vector<Operation> operations = plan.operations();
  const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(operations.size())));
  return {std::move(job), plan.draft(), std::move(operations), at, random};
}

TEST(Interpreter, RejectsEveryMutationOfCorrectPlans) {
  const int most = soaking() ? 40 : 15;
  for (const Mutation& mutation : mutations()) {
    int applied = 0;
    for (uint64_t seed = 1; seed <= 400 && applied < most; ++seed) {
      SCOPED_TRACE(testing::Message() << mutation.name << ", seed " << seed);
      Random random(seed);
      Mutant mutant = random_mutant(random);
      ASSERT_EQ(message_of(interpret(seal(mutant.plan), mutant.job.oracle())), "");
      if (!mutation.apply(mutant)) continue;
      ++applied;
      if (mutation.rebuilds) set_operations(mutant.plan, mutant.operations);
      fill_memory(mutant.plan, mutant.job);
      const std::string text = message_of(interpret(seal(mutant.plan), mutant.job.oracle()));
      EXPECT_NE(text, "");
      EXPECT_THAT(text, Not(HasSubstr("the memory of"))) << "nothing else is wrong";
      EXPECT_FALSE(interpret(seal(mutant.plan), mutant.job.oracle(), {.most_operations = 0, .devices = 0}).ok());
      EXPECT_EQ(interpret_elements(seal(mutant.plan), mutant.job.oracle()).ok(), !mutation.by_elements);
    }
    EXPECT_GE(applied, 15) << mutation.name << " was hardly ever possible";
  }
}

}  // namespace interpreter_test
}  // namespace scalai::plan
