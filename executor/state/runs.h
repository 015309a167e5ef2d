#pragma once
// A box in two dense row-major arrays, as nested loops over runs that are contiguous in both. Pure functions; any
// thread.

#include <array>
#include <cstdint>

#include "ptc/state/tensor/box.h"

namespace scalai::executor::state::internal {

// One loop: `count` steps; each advances by step_a elements in a and step_b elements in b.
struct Loop {
  int64_t count = 1;
  int64_t step_a = 0;
  int64_t step_b = 0;
};

// Element offsets of the part's first element, the loops from outermost to innermost, and the elements of a run.
// Dimensions of size 1 are dropped, and neighbouring dimensions contiguous in both arrays are merged: a part that is
// dense in both has no loop.
struct Runs {
  int64_t first_a = 0;
  int64_t first_b = 0;
  int64_t length = 1;
  int loops = 0;
  std::array<Loop, tensor::kMaxRank> loop{};
};

// CHECK: `part` is not empty and lies in `a` and `b`, the boxes of the two arrays.
Runs runs_of(const tensor::Box& part, const tensor::Box& a, const tensor::Box& b);

// Calls visit(offset in a, offset in b) for each run, in row-major order. Stops and returns false when visit returns
// false.
template <class Visit>
bool for_each_run(const Runs& runs, Visit visit) {
  std::array<int64_t, tensor::kMaxRank> done{};
  int64_t a = runs.first_a;
  int64_t b = runs.first_b;
  while (true) {
    if (!visit(a, b)) return false;
    int depth = runs.loops - 1;
    for (; depth >= 0; --depth) {
      const auto d = static_cast<size_t>(depth);
      const Loop& loop = runs.loop[d];
      a += loop.step_a;
      b += loop.step_b;
      if (++done[d] < loop.count) break;
      a -= loop.step_a * loop.count;
      b -= loop.step_b * loop.count;
      done[d] = 0;
    }
    if (depth < 0) return true;
  }
}

}  // namespace scalai::executor::state::internal
