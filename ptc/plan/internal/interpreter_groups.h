#pragma once
// Which tensors of a plan need not be looked at one by one: those that lie alike before and after and go the same ways.

#include <vector>

#include "ptc/plan/interpreter.h"

namespace scalai::plan::internal {

// Tensors that lie alike: same shape, types, mesh, layout and pins on both sides, same redundant copies, same missing
// boxes. By their first member, members in order. The plan has no problems that plan_facts.h names.
std::vector<std::vector<TensorId>> tensors_alike(const Plan& plan, const InterpreterInput& input);

// Some tensors that go the same ways: boxes, patterns and rounds of all their instances agree.
struct Travellers {
  TensorId first;
  int64_t count = 1;
};

class Ways {
 public:
  // `instances` by tensor; both outlive it.
  Ways(const Plan& plan, const std::vector<std::vector<int32_t>>& instances);
  // Of tensors alike. A tensor with derived boxes is always alone: where its master goes matters, too.
  std::vector<Travellers> apart(const std::vector<TensorId>& alike) const;

 private:
  const Plan& plan_;
  const std::vector<std::vector<int32_t>>& instances_;
  std::vector<int32_t> way_;   // by instance: the first with its box, pattern and round
  std::vector<bool> derives_;  // by pattern
};

}  // namespace scalai::plan::internal
