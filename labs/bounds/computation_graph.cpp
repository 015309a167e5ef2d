#include "labs/bounds/computation_graph.h"

#include <algorithm>
#include <string>

#include "ptc/base/status.h"

namespace scalai::bounds {

int32_t ComputationGraph::input(int64_t size) { return add(size, Role::kInput, {}, {}); }
int32_t ComputationGraph::computed(int64_t size, std::span<const int32_t> operands, std::span<const int32_t> after) {
  return add(size, Role::kComputed, operands, after);
}
int32_t ComputationGraph::result(int64_t size, std::span<const int32_t> operands) {
  return add(size, Role::kResult, operands, {});
}

int32_t ComputationGraph::add(int64_t size, Role role, std::span<const int32_t> operands,
                              std::span<const int32_t> after) {
  SCALAI_CHECK(size > 0, std::to_string(size));
  const int32_t value = values();
  std::vector<int32_t> distinct(operands.begin(), operands.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const int32_t operand : distinct) {
    SCALAI_CHECK(operand >= 0 && operand < value, std::to_string(operand));
    users_[static_cast<size_t>(operand)].push_back(value);
  }
  sizes_.push_back(size);
  roles_.push_back(role);
  operands_.push_back(std::move(distinct));
  users_.emplace_back();
  for (const int32_t earlier : after)
    SCALAI_CHECK(earlier >= 0 && earlier < value && this->role(earlier) != Role::kInput);
  after_.emplace_back(after.begin(), after.end());
  operations_ += role != Role::kInput;
  return value;
}

int64_t ComputationGraph::least_capacity() const {
  int64_t least = 0;
  for (int32_t value = 0; value < values(); ++value) {
    int64_t together = 0;
    for (const int32_t operand : operands(value)) together += size(operand);
    least = std::max({least, together, size(value)});
  }
  return least;
}

int64_t ComputationGraph::total() const {
  int64_t sum = 0;
  for (int32_t value = 0; value < values(); ++value) sum += size(value);
  return sum;
}

int64_t ComputationGraph::used_inputs() const {
  int64_t sum = 0;
  for (int32_t value = 0; value < values(); ++value) {
    if (role(value) == Role::kInput && !users(value).empty()) sum += size(value);
  }
  return sum;
}

int64_t ComputationGraph::results() const {
  int64_t sum = 0;
  for (int32_t value = 0; value < values(); ++value) {
    if (role(value) == Role::kResult) sum += size(value);
  }
  return sum;
}

}  // namespace scalai::bounds
