#pragma once
// How a device makes what built-in steps give (device.h). Pure functions; any thread.

#include <memory>
#include <vector>

#include "ptc/state/transform/device.h"

namespace scalai::transform::internal {

// A part of a tensor with its pair: A is [rank, columns], B [rows, rank].
struct LowRankPair {
  MatrixPart part;
  std::shared_ptr<const Tensor> a, b;
  double factor = 1;
};

// Null: a function of users.
std::shared_ptr<const OnDevice> function_on_device(const std::shared_ptr<const Tensor>& in, const Function& function,
                                                   const Function::Output& output);
std::shared_ptr<const OnDevice> average_on_device(const std::vector<std::shared_ptr<const Tensor>>& all);
std::shared_ptr<const OnDevice> merge_on_device(const std::shared_ptr<const Tensor>& in,
                                                const std::vector<LowRankPair>& pairs);

}  // namespace scalai::transform::internal
