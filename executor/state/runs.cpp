#include "executor/state/runs.h"

#include "ptc/base/status.h"

namespace scalai::executor::state::internal {
namespace {
int64_t offset_of(const tensor::Box& part, const tensor::Box& box,
                  const std::array<int64_t, tensor::kMaxRank>& strides) {
  int64_t offset = 0;
  for (int dim = 0; dim < box.rank; ++dim) {
    const auto d = static_cast<size_t>(dim);
    offset += (part.lo[d] - box.lo[d]) * strides[d];
  }
  return offset;
}
}  // namespace

Runs runs_of(const tensor::Box& part, const tensor::Box& a, const tensor::Box& b) {
  SCALAI_CHECK(!part.empty() && part.rank == a.rank && part.rank == b.rank, part.str());
  SCALAI_CHECK(a.contains(part) && b.contains(part), part.str() + " in " + a.str() + " and " + b.str());
  const auto strides_a = a.shape().strides();
  const auto strides_b = b.shape().strides();
  Runs runs;
  runs.first_a = offset_of(part, a, strides_a);
  runs.first_b = offset_of(part, b, strides_b);
  // From the innermost dimension out: what continues the loop before it in both arrays makes that one longer.
  std::array<Loop, tensor::kMaxRank> inner_first{};
  int loops = 0;
  for (int dim = part.rank - 1; dim >= 0; --dim) {
    const auto d = static_cast<size_t>(dim);
    const Loop next{part.extent(dim), strides_a[d], strides_b[d]};
    if (next.count == 1) continue;
    Loop inner = loops == 0 ? Loop{runs.length, 1, 1} : inner_first[static_cast<size_t>(loops - 1)];
    const bool joins = next.step_a == inner.count * inner.step_a && next.step_b == inner.count * inner.step_b;
    if (!joins) {
      inner_first[static_cast<size_t>(loops++)] = next;
    } else if (loops == 0) {
      runs.length *= next.count;
    } else {
      inner_first[static_cast<size_t>(loops - 1)].count *= next.count;
    }
  }
  runs.loops = loops;
  for (int i = 0; i < loops; ++i) runs.loop[static_cast<size_t>(i)] = inner_first[static_cast<size_t>(loops - 1 - i)];
  return runs;
}

}  // namespace scalai::executor::state::internal
