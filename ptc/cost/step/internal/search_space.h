#pragma once
// The points of a search: every configuration that divides, with the micro-batches and recomputations that go with it,
// and for each a step time that no pricing can undercut.

#include <functional>
#include <string>

#include "ptc/cost/step/search.h"

namespace scalai::step::internal {

struct Point {
  int tp = 1, pp = 1, dp = 1, cp = 1, ep = 1, etp = 1, vpp = 1;
  int zero = 0;
  int micro_batch = 1;
  Recompute recompute = Recompute::kNone;
  int gpus() const { return tp * pp * dp * cp; }
};

// Before in ties of the score: see search.h.
bool goes_first(const Point& a, const Point& b);

// Every point, in a fixed order. CHECK: check_space.
void for_each_point(const ModelShape& model, const SearchSpace& space, const std::function<void(const Point&)>& visit);

collection::ParallelConfig config_of(const Point& point, const SearchSpace& space);
Training training_of(const Point& point, const SearchSpace& space);
// The global batch that a point trains with, for as many samples as SearchSpace::batch_tolerance allows; 0 = none.
int batch_of(const Point& point, const SearchSpace& space);
// What is tried where a search offers another batch, and the least tolerance in thousandths that allows `batch`: the
// change has to be below it.
inline constexpr double kTriedTolerance = 0.05;
double tolerance_for(int batch, int wanted);
int64_t memory_limit(const SearchSpace& space);

// Which rule leaves no point, for a space that has none.
std::string why_empty(const ModelShape& model, const SearchSpace& space);

// Least seconds of a step, for as many samples as the space's batch has: the matrix products of the layers and the head
// alone, shared out evenly, at what large kernels reach of the fastest GPU's peak, and the pipeline's fill with the
// layers' part of them. Attention, memory-bound work and communication count nothing. Seconds in `wait_s` are idle.
class Bound {
 public:
  Bound(const ModelShape& model, const SearchSpace& space);
  struct Least {
    double work_s = 0, wait_s = 0;
    double step_s() const { return work_s + wait_s; }
  };
  Least of(const Point& point) const;

 private:
  const SearchSpace& space_;
  double layers_s_ = 0, head_s_ = 0;  // of the space's batch on one GPU, forward and backward
};

}  // namespace scalai::step::internal
