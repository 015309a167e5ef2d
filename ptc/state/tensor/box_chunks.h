#pragma once
// A box in parts of bounded size, in row-major order.

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/box.h"

namespace scalai::tensor {

// visit(part) → absl::Status for parts of at most `most` elements that together are `box`. most >= 1.
template <class Visit>
absl::Status for_each_chunk(const Box& box, int64_t most, const Visit& visit, int dim = 0) {
  if (box.empty()) return absl::OkStatus();
  if (box.volume() <= most || dim == box.rank) return visit(box);
  const auto d = static_cast<size_t>(dim);
  const int64_t inner = box.volume() / box.extent(dim);
  const int64_t rows = inner <= most ? most / inner : 1;
  for (int64_t at = box.lo[d]; at < box.hi[d]; at += rows) {
    Box part = box;
    part.lo[d] = at;
    part.hi[d] = std::min(at + rows, box.hi[d]);
    SCALAI_RETURN_IF_ERROR(for_each_chunk(part, most, visit, dim + 1));
  }
  return absl::OkStatus();
}

}  // namespace scalai::tensor
