#pragma once
// The oracle of the differential test, first part: who owns which element, by its own reading of meshes, cuts and pins.

#include <algorithm>

#include "ptc/state/collection/collection.h"

namespace scalai::differential {

// Row-major numbers of a box's elements, as far as they lie in the shape.
inline std::vector<int> elements_of(const tensor::Box& box, const tensor::Shape& shape) {
  std::vector<int> elements = {0};
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const std::vector<int> prefixes = std::move(elements);
    elements.clear();
    for (const int prefix : prefixes) {
      for (int64_t i = std::max<int64_t>(box.lo[dim], 0); i < std::min(box.hi[dim], shape[dim]); ++i)
        elements.push_back(static_cast<int>(prefix * shape[dim] + i));
    }
  }
  return elements;
}

// Where part r of p of [0, n) begins.
inline int64_t begin_of(const tensor::Cut& cut, int64_t n, int64_t p, int64_t r) {
  switch (cut.rule) {
    case tensor::SplitRule::kExplicit: return cut.bounds[r];
    case tensor::SplitRule::kBucket: return std::clamp<int64_t>(r * (cut.bucket / p) - cut.start, 0, n);
    case tensor::SplitRule::kCeil: return std::min(n, r * ((n + p - 1) / p));
    case tensor::SplitRule::kPadded: return std::min(n, r * cut.multiple * ((n - 1) / (p * cut.multiple) + 1));
    default: return r * (n / p) + std::min(r, n % p);
  }
}

// The number of parts that a mesh makes along some of its axes as one, and which of them is the rank's.
inline std::pair<int64_t, int64_t> position(const collection::Mesh& mesh, const std::string& names, int64_t rank) {
  int64_t p = 1, r = 0;
  for (const collection::MeshAxis& axis : mesh.axes()) {
    const bool named = ("+" + names + "+").find("+" + axis.name + "+") != std::string::npos;
    r += named ? rank % axis.size * p : 0;
    p *= named ? axis.size : 1;
    rank /= axis.size;
  }
  return {p, r};
}

// What the rank owns of the tensor.
inline std::vector<int> owned(const collection::Collection& side, const collection::LogicalTensor& tensor, int rank) {
  const collection::Mesh& mesh = side.meshes[tensor.mesh];
  tensor::Box box = tensor::Box::whole(tensor.shape);
  int64_t first = 0, last = tensor.shape.elements();  // row-major in the box, for a flat cut
  for (const tensor::Cut& cut : tensor.layout.cuts) {
    const auto [p, r] = position(mesh, cut.axis, rank);
    const int64_t parts = cut.rule == tensor::SplitRule::kGrouped ? std::min(p, cut.groups) : p;
    int64_t& lo = cut.dim < 0 ? first : box.lo[cut.dim];
    int64_t& hi = cut.dim < 0 ? last : box.hi[cut.dim];
    const int64_t n = cut.dim < 0 ? box.volume() : hi - lo;
    hi = lo + begin_of(cut, n, parts, r * parts / p + 1);
    lo += begin_of(cut, n, parts, r * parts / p);
  }
  for (const auto& [axis, on] : tensor.pins)
    if (std::count(on.begin(), on.end(), position(mesh, axis, rank).second) == 0) return {};
  const std::vector<int> elements = elements_of(box, tensor.shape);
  return {elements.begin() + first, elements.begin() + std::min<int64_t>(last, elements.size())};
}

}  // namespace scalai::differential
