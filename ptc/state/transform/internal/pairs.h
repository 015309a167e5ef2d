#pragma once
// Steps that read more than one state: averages, and low-rank pairs (transform.h).

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ptc/state/transform/transform.h"

namespace scalai::transform::internal {

// The mean of tensors of one shape, in the type of the first.
Tensor average_of(std::vector<std::shared_ptr<const Tensor>> all, const std::string& made);

// The pairs of an adapter. One step, one thread; what it makes may be read by any thread.
class Pairs {
 public:
  // Both outlive this. Problems of the adapter itself, and later ones, go to `problems`, without the step.
  Pairs(const Lora& lora, const Other& adapter, std::vector<std::string>& problems);

  bool has(const Tensor& tensor) const;  // a pair for a part of it
  Tensor merged(const Tensor& tensor);
  // Pairs that fitted no tensor are problems.
  void finish();

 private:
  struct Pair {
    std::shared_ptr<const Tensor> a, b;  // [rank, columns], [rows, rank]
  };
  void add(const Other& adapter);
  void check();
  double factor_of(const Pair& pair) const;

  const Lora& lora_;
  const Other& adapter_;
  std::vector<std::string>& problems_;
  std::map<std::string, Pair> pairs_;  // by the name of the matrix
  std::set<std::string> used_;
};

}  // namespace scalai::transform::internal
