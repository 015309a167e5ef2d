#pragma once
// Which positions of the order a data-parallel rank reads. The rule: of a batch of b positions rank r of dp reads one
// contiguous run; the first b mod dp ranks read one more than the others (of a batch smaller than dp the last ranks
// read none). Runs lie in rank order. So the batch of a step is the same whatever dp is, and a change of dp between two
// steps loses and doubles nothing. All O(1). Values; pure functions.

#include <cstdint>
#include <optional>

#include "ptc/data/state.h"

namespace scalai::data {

// Which rank of how many.
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

// The rank's run in a batch of `size` ≥ 0 positions, counted from the batch's first. 0 ≤ rank < dp (CHECK).
PositionRange run_of(int64_t size, DpRank who);
// The rank that reads offset in [0, size) (CHECK) of a batch.
int rank_reading(int64_t size, int64_t offset, int dp);

// Positions of the pass that the rank reads in that step.
PositionRange positions_of(const Steps& steps, int64_t step, DpRank who);

// What a rank reads from a step to the end of that step's pass: its 0th, 1st, … sample.
class RankShare {
 public:
  RankShare(const Steps& steps, int64_t step, DpRank who);

  DpRank who() const { return who_; }
  int64_t pass() const { return pass_; }
  int64_t count() const;
  // Position in the pass of the rank's k-th sample, k in [0, count()) (CHECK); rises with k.
  int64_t position(int64_t k) const;
  // The step that reads it.
  int64_t step_of(int64_t k) const;
  // The inverse: which of the rank's samples lies at `position`; nullopt when another rank, an earlier step or none
  // reads it.
  std::optional<int64_t> index_of(int64_t position) const;
  // How many of the rank's samples the steps before `step` read, for steps from the first to the pass's end (CHECK).
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

}  // namespace scalai::data
