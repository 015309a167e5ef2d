#include "ptc/plan/internal/interpreter_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "ptc/plan/internal/plan_facts.h"

namespace scalai::plan::internal {
namespace {

using collection::LogicalTensor;

// What does not matter for where a tensor lies is taken out; the rest is compared as a whole.
LogicalTensor anonymous(const LogicalTensor& tensor) {
  LogicalTensor copy = tensor;
  copy.name.clear();
  copy.kind = model::StateKind::kParam;
  return copy;
}

struct Lie {
  LogicalTensor before, after;
  std::vector<std::pair<tensor::Box, HostId>> copies;
  std::vector<tensor::Box> missing;
  friend bool operator==(const Lie&, const Lie&) = default;
};

size_t hash_of(const Lie& lie) {
  const auto one = [](const LogicalTensor& tensor) {
    std::vector<int64_t> key = {tensor.mesh, static_cast<int64_t>(tensor.dtype), tensor.shape.elements()};
    for (const tensor::Cut& cut : tensor.layout.cuts) key.insert(key.end(), {cut.dim, cut.start, cut.bucket});
    for (const collection::Pin& pin : tensor.pins)
      key.insert(key.end(), pin.coordinates.begin(), pin.coordinates.end());
    return key;
  };
  return absl::HashOf(one(lie.before), one(lie.after), lie.copies.size(), lie.missing.size());
}

}  // namespace

std::vector<std::vector<TensorId>> tensors_alike(const Plan& plan, const InterpreterInput& input) {
  const size_t tensors = plan.tensors().size();
  const auto extra = by_tensor(input.residency.extra, tensors);
  const auto missing = by_tensor(plan.missing(), tensors);
  std::vector<Lie> lies;  // of the first of each group
  std::vector<std::vector<TensorId>> groups;
  absl::flat_hash_map<size_t, std::vector<size_t>> by_hash;
  for (size_t i = 0; i < tensors; ++i) {
    Lie lie{anonymous(input.from.tensors[i]), anonymous(input.to.tensors[i]), {}, {}};
    for (const size_t at : extra[i])
      lie.copies.emplace_back(input.residency.extra[at].box, input.residency.extra[at].host);
    for (const size_t at : missing[i]) lie.missing.push_back(plan.missing()[at].box);
    std::vector<size_t>& candidates = by_hash[hash_of(lie)];
    const auto known = std::find_if(candidates.begin(), candidates.end(), [&](size_t at) { return lies[at] == lie; });
    const size_t group = known == candidates.end() ? groups.size() : *known;
    if (group == groups.size()) {
      candidates.push_back(group);
      lies.push_back(std::move(lie));
      groups.emplace_back();
    }
    groups[group].push_back(TensorId(static_cast<int64_t>(i)));
  }
  return groups;
}

Ways::Ways(const Plan& plan, const std::vector<std::vector<int32_t>>& instances)
    : plan_(plan), instances_(instances), way_(plan.instances().size()) {
  std::vector<int32_t> order(plan.instances().size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int32_t i) {
    const Instance& instance = plan.instances()[static_cast<size_t>(i)];
    return std::tie(instance.pattern, instance.round, instance.box);
  };
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return std::tuple(key(a), a) < std::tuple(key(b), b); });
  for (size_t i = 0; i < order.size(); ++i) {
    const bool same = i > 0 && key(order[i]) == key(order[i - 1]);
    way_[static_cast<size_t>(order[i])] = same ? way_[static_cast<size_t>(order[i - 1])] : order[i];
  }
  for (int32_t pattern = 0; pattern < plan.patterns().size(); ++pattern) {
    const auto legs = plan.patterns().legs(pattern);
    derives_.push_back(std::any_of(legs.begin(), legs.end(),
                                   [](const Leg& leg) { return leg.transfer_class == TransferClass::kDerived; }));
  }
}

std::vector<Travellers> Ways::apart(const std::vector<TensorId>& alike) const {
  std::vector<Travellers> result;
  std::map<std::vector<int32_t>, size_t> known;
  for (const TensorId id : alike) {
    std::vector<int32_t> ways;
    bool derives = false;
    for (const int32_t instance : instances_[static_cast<size_t>(id.value)]) {
      ways.push_back(way_[static_cast<size_t>(instance)]);
      derives = derives || derives_[static_cast<size_t>(plan_.instances()[static_cast<size_t>(instance)].pattern)];
    }
    std::sort(ways.begin(), ways.end());
    if (derives) ways.push_back(-1 - id.value);
    const auto [entry, fresh] = known.try_emplace(std::move(ways), result.size());
    if (fresh) {
      result.push_back({id, 1});
    } else {
      ++result[entry->second].count;
    }
  }
  return result;
}

}  // namespace scalai::plan::internal
