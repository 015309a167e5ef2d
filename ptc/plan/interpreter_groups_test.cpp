#include "ptc/plan/internal/interpreter_groups.h"

#include <gtest/gtest.h>

#include "ptc/plan/internal/plan_facts.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/interpreter.h"

namespace scalai::plan::internal {
namespace {

// Four tensors on two devices, moved to two others.
Case four_tensors() {
  const auto side = [](const std::vector<DeviceId>& devices) {
    std::vector<collection::LogicalTensor> tensors;
    for (const char* name : {"a", "b", "c", "d"}) tensors.push_back(tensor_of(name, {8, 2}, {cut_over("tp", 0)}));
    return collection_of({{"tp", 2}}, devices, std::move(tensors));
  };
  return {.from = side(devices({0, 1})), .to = side(devices({4, 5}))};
}

std::vector<std::vector<int>> groups_of(const Case& job, const PlanDraft& plan = {}) {
  PlanDraft with = plan;
  with.tensors.resize(job.to.tensors.size());
  std::vector<std::vector<int>> groups;
  for (const std::vector<TensorId>& group : tensors_alike(seal(with), job.oracle())) {
    groups.emplace_back();
    for (const TensorId id : group) groups.back().push_back(id.value);
  }
  return groups;
}

using Groups = std::vector<std::vector<int>>;

TEST(InterpreterGroups, TensorsAlikeLieAlikeOnBothSides) {
  const Case same = four_tensors();
  EXPECT_EQ(groups_of(same), Groups({{0, 1, 2, 3}}));
  Case job = same;
  job.from.tensors[1].shape = job.to.tensors[1].shape = {8, 3};
  EXPECT_EQ(groups_of(job), Groups({{0, 2, 3}, {1}}));
  job = same;
  job.from.tensors[2].dtype = tensor::DType::kBF16;
  EXPECT_EQ(groups_of(job), Groups({{0, 1, 3}, {2}}));
  job = same;
  job.to.tensors[0].layout.cuts[0].rule = tensor::SplitRule::kCeil;
  EXPECT_EQ(groups_of(job), Groups({{0}, {1, 2, 3}}));
  job = same;
  job.to.tensors[3].pins = {{"tp", {1}}};
  EXPECT_EQ(groups_of(job), Groups({{0, 1, 2}, {3}}));
  job = same;
  job.from.tensors[3].kind = model::StateKind::kExpAvg;
  EXPECT_EQ(groups_of(job), Groups({{0, 1, 2, 3}})) << "what a tensor is for does not matter";
  job.from.meshes.push_back(job.from.meshes[0]);
  job.from.tensors[1].mesh = 1;
  EXPECT_EQ(groups_of(job), Groups({{0, 2, 3}, {1}}));
}

TEST(InterpreterGroups, CopiesAndMissingBoxesMatter) {
  Case job = four_tensors();
  job.residency.extra = {{TensorId(1), {{0, 0}, {4, 2}}, HostId(1)},
                         {TensorId(2), {{0, 0}, {4, 2}}, HostId(2)},
                         {TensorId(3), {{0, 0}, {4, 2}}, HostId(1)}};
  EXPECT_EQ(groups_of(job), Groups({{0}, {1, 3}, {2}}));
  PlanDraft plan;
  plan.missing = {{TensorId(3), {{0, 0}, {4, 2}}}};
  EXPECT_EQ(groups_of(job, plan), Groups({{0}, {1}, {2}, {3}}));
}

TEST(InterpreterGroups, WaysAreBoxesPatternsAndRounds) {
  const Case job = four_tensors();
  const Plan plan = job.plan();
  const auto counts = [](const Plan& one) {
    const auto instances = instances_by_tensor(one);
    std::vector<std::pair<int, int64_t>> found;
    for (const Travellers& way : Ways(one, instances).apart({TensorId(0), TensorId(1), TensorId(2), TensorId(3)}))
      found.emplace_back(way.first.value, way.count);
    return found;
  };
  using Counts = std::vector<std::pair<int, int64_t>>;
  ASSERT_EQ(plan.instances().size(), 2u) << "one a half, for all four tensors";
  EXPECT_EQ(counts(plan), Counts({{0, 4}}));

  PlanDraft apart = plan.draft();  // the same, with one instance a tensor
  apart.tensor_sets = {{TensorId(0)}, {TensorId(1)}, {TensorId(2)}, {TensorId(3)}};
  apart.instances.clear();
  for (const Instance& instance : plan.instances()) {
    for (int32_t set = 0; set < 4; ++set) {
      apart.instances.push_back(instance);
      apart.instances.back().tensors = set;
    }
  }
  EXPECT_EQ(counts(seal(apart)), Counts({{0, 4}}));
  PlanDraft changed = apart;
  changed.instances[1].round = 1;
  EXPECT_EQ(counts(seal(changed)), Counts({{0, 3}, {1, 1}}));
  changed = apart;
  changed.instances[2].pattern = apart.instances[4].pattern;
  EXPECT_EQ(counts(seal(changed)), Counts({{0, 3}, {2, 1}}));
  changed = apart;
  changed.instances[3].box.hi[0] = 3;
  EXPECT_EQ(counts(seal(changed)), Counts({{0, 3}, {3, 1}}));
  changed = apart;
  changed.instances.pop_back();
  EXPECT_EQ(counts(seal(changed)), Counts({{0, 3}, {3, 1}}));
  changed = apart;
  std::vector<Leg> legs = legs_of(apart, 0);
  legs[0].transfer_class = TransferClass::kDerived;
  for (const size_t i : {0u, 1u}) set_pattern(changed, i, legs, {});
  changed.instances[1].pattern = changed.instances[0].pattern;
  EXPECT_EQ(counts(seal(changed)), Counts({{0, 1}, {1, 1}, {2, 2}})) << "what is derived is looked at alone";
}

}  // namespace
}  // namespace scalai::plan::internal
