#pragma once
// The positions of a batch that each data-parallel rank reads. Rank r of dp reads one contiguous run of the b
// positions; the first b mod dp ranks read one position more than the others (if b < dp the last ranks read none). Runs
// lie in rank order. So the batch of a step does not depend on dp, and a change of dp between two steps loses and
// doubles nothing. All O(1). Values and pure functions; any thread may call them.

#include <cstdint>
#include <optional>

#include "ptc/store/datasets/state.h"

namespace scalai::datasets {

// A data-parallel rank and their number.
struct DpRank {
  int rank = 0;
  int dp = 1;
  friend bool operator==(const DpRank&, const DpRank&) = default;
};

struct PositionRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const PositionRange&, const PositionRange&) = default;
};

// The rank's run in a batch of `size` positions, counted from the first position of the batch. CHECK: size ≥ 0,
// 0 ≤ rank < dp.
PositionRange run_of(int64_t size, DpRank who);

// Positions of the pass that the rank reads in `step`. CHECK: those of Steps::batch and run_of.
PositionRange positions_of(const Steps& steps, int64_t step, DpRank who);

// The samples of a rank from a step to the end of that step's pass, numbered 0, 1, … Keeps no reference to `steps`.
class RankShare {
 public:
  RankShare(const Steps& steps, int64_t step, DpRank who);

  DpRank who() const { return who_; }
  int64_t pass() const { return pass_; }
  int64_t count() const;
  // Position in the pass of the rank's k-th sample; rises with k. CHECK: k in [0, count()).
  int64_t position(int64_t k) const;
  // The step that reads the k-th sample. CHECK: as position().
  int64_t step_of(int64_t k) const;
  // The inverse of position(): the rank's sample at `position`; nullopt if another rank, an earlier step or no step
  // reads it.
  std::optional<int64_t> index_of(int64_t position) const;
  // Number of the rank's samples before `step`. CHECK: `step` lies between the first step and the end of the pass.
  int64_t count_before(int64_t step) const;

 private:
  DpRank who_;
  int64_t pass_ = 0;
  int64_t first_step_ = 0;
  int64_t begin_ = 0;        // position of the first batch
  int64_t batch_ = 1;        // size of a whole batch
  int64_t whole_ = 0;        // whole batches
  int64_t last_ = 0;         // size of the short batch after them; 0: none
  PositionRange whole_run_;  // the rank's run in a whole batch
  PositionRange last_run_;   // and in the short one
};

}  // namespace scalai::datasets
