#pragma once
// What to say when no configuration fits the memory of the GPUs.

#include <optional>

#include "ptc/cost/step/internal/search_space.h"

namespace scalai::step::internal {

// The point that needs least memory; in ties the one that goes first.
struct LeastMemory {
  std::optional<Point> point;
  double bytes = 0;
  void consider(const Point& one, double needs);
};

// `least` of all points of the space, which all exceed the limit.
NoFit explain(const ModelShape& model, const SearchSpace& space, const LeastMemory& least);

}  // namespace scalai::step::internal
