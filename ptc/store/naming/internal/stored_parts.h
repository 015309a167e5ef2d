#pragma once
// How parts make up a stored tensor: rows are selected, parts put one after the other along dim 0, and all is
// transposed where the naming says so. The same for whole tensors and for what one rank holds. Values.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/tensor/layout.h"
#include "ptc/store/naming/arrangement.h"
#include "ptc/store/naming/internal/family_rules.h"

namespace scalai::store::internal {

// Heads in a fused tensor: groups of `queries` query heads, a key head and a value head, each of `head_dim` rows.
struct QueryGroups {
  int64_t queries = 0;  // 0: the tensor has no groups
  int64_t head_dim = 0;
  int64_t rows() const { return (queries + 2) * head_dim; }  // of one group
};

// What is there of one logical tensor, and what a stored tensor takes of it.
struct LocalPart {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;         // of the buffer, padding included; one extent when flat
  std::vector<tensor::Piece> pieces;  // in that buffer; one or none when not flat
  bool flat = false;
  Rows rows = Rows::kAll;
  Rotary rotary = Rotary::kHalf;
  QueryGroups groups;
};

LocalPart whole_part(const LogicalState& state);
// What a rank at these positions on the axes of the layout's cuts holds.
LocalPart local_part(const LogicalState& state, const tensor::Layout& layout,
                     std::span<const tensor::AxisPosition> positions);

// InvalidArgument, naming tensor and box: dtypes or cuts differ among the parts, rows of a selection are cut inside a
// group, flat parts of a selection or transposed. CHECK: there is a part.
absl::StatusOr<ArrangedTensor> join_parts(std::string name, std::span<const LocalPart> parts, bool transposed);

}  // namespace scalai::store::internal
