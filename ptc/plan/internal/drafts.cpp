#include "ptc/plan/internal/drafts.h"

#include <algorithm>
#include <tuple>

namespace scalai::plan::internal {

namespace {

std::array<int32_t, 4> key_of(const Leg& leg) {
  return {static_cast<int32_t>(leg.transfer_class) * 4 + static_cast<int32_t>(leg.src.kind), leg.hop, leg.src.index,
          leg.dst.value};
}

}  // namespace

int32_t Drafts::pattern(const Leg& leg) {
  const auto [entry, fresh] = known_single_.try_emplace(key_of(leg), patterns_.size());
  if (fresh) patterns_.add({&leg, 1}, {});
  return entry->second;
}

int32_t Drafts::pattern(const std::vector<Leg>& legs, const std::vector<DeviceId>& frees) {
  if (legs.size() == 1 && frees.empty()) return pattern(legs.front());
  std::vector<int32_t> key;
  key.reserve(legs.size() * 4 + frees.size() + 1);
  key.push_back(static_cast<int32_t>(legs.size()));
  for (const Leg& leg : legs) {
    const std::array<int32_t, 4> part = key_of(leg);
    key.insert(key.end(), part.begin(), part.end());
  }
  for (const DeviceId device : frees) key.push_back(device.value);
  const auto [entry, fresh] = known_patterns_.try_emplace(std::move(key), patterns_.size());
  if (fresh) patterns_.add(legs, frees);
  return entry->second;
}

int32_t Drafts::tensors(const std::vector<TensorId>& set) {
  std::vector<int32_t> key;
  for (const TensorId id : set) key.push_back(id.value);
  const auto [entry, fresh] = known_sets_.try_emplace(std::move(key), static_cast<int32_t>(sets_.size()));
  if (fresh) sets_.push_back(set);
  return entry->second;
}

int32_t Drafts::last_hop() const {
  int32_t last = 0;
  for (int32_t pattern = 0; pattern < patterns_.size(); ++pattern) {
    for (const Leg& leg : patterns_.legs(pattern)) last = std::max(last, leg.hop);
  }
  return last;
}

void Drafts::finish(PlanDraft& plan) && {
  const auto key = [](const Instance& instance) { return std::tie(instance.tensors, instance.pattern, instance.box); };
  std::sort(instances_.begin(), instances_.end(),
            [&](const Instance& a, const Instance& b) { return key(a) < key(b); });
  for (size_t begin = 0, end = 0; begin < instances_.size(); begin = end) {
    const Instance& first = instances_[begin];
    while (end < instances_.size() && instances_[end].tensors == first.tensors &&
           instances_[end].pattern == first.pattern)
      ++end;
    const auto legs = patterns_.legs(first.pattern);
    const bool kept = !legs.empty() && legs.front().transfer_class == TransferClass::kKept;
    if (end - begin == 1 || kept) {
      plan.instances.insert(plan.instances.end(), instances_.begin() + static_cast<std::ptrdiff_t>(begin),
                            instances_.begin() + static_cast<std::ptrdiff_t>(end));
      continue;
    }
    std::vector<tensor::Box> boxes;
    for (size_t i = begin; i < end; ++i) boxes.push_back(instances_[i].box);
    for (const tensor::Box& box : merge(std::move(boxes))) {
      plan.instances.push_back(first);
      plan.instances.back().box = box;
    }
  }
  plan.patterns = std::move(patterns_);
  plan.tensor_sets = std::move(sets_);
}

void renumber(PlanDraft& plan) {
  std::vector<int32_t> pattern_of(static_cast<size_t>(plan.patterns.size()), -1);
  std::vector<int32_t> set_of(plan.tensor_sets.size(), -1);
  Patterns patterns;
  std::vector<std::vector<TensorId>> sets;
  for (Instance& instance : plan.instances) {
    int32_t& pattern = pattern_of[static_cast<size_t>(instance.pattern)];
    if (pattern < 0)
      pattern = patterns.add(plan.patterns.legs(instance.pattern), plan.patterns.frees(instance.pattern));
    int32_t& set = set_of[static_cast<size_t>(instance.tensors)];
    if (set < 0) {
      set = static_cast<int32_t>(sets.size());
      sets.push_back(std::move(plan.tensor_sets[static_cast<size_t>(instance.tensors)]));
    }
    instance.pattern = pattern;
    instance.tensors = set;
  }
  plan.patterns = std::move(patterns);
  plan.tensor_sets = std::move(sets);
}

}  // namespace scalai::plan::internal
