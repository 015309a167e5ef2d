#include "ptc/store/datasets/share.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::datasets {

PositionRange run_of(int64_t size, DpRank who) {
  SCALAI_CHECK(size >= 0 && who.rank >= 0 && who.rank < who.dp);
  const int64_t each = size / who.dp, longer = size % who.dp;
  const int64_t begin = who.rank * each + std::min<int64_t>(who.rank, longer);
  return {begin, begin + each + (who.rank < longer ? 1 : 0)};
}

PositionRange positions_of(const Steps& steps, int64_t step, DpRank who) {
  const Batch batch = steps.batch(step);
  const PositionRange run = run_of(batch.size, who);
  return {batch.begin + run.begin, batch.begin + run.end};
}

RankShare::RankShare(const Steps& steps, int64_t step, DpRank who) : who_(who), first_step_(step) {
  const State state = steps.at(step);
  const int64_t positions = steps.positions_end(step) - state.consumed;
  pass_ = state.pass;
  begin_ = state.consumed;
  batch_ = state.global_batch;
  whole_ = positions / batch_;
  last_ = positions % batch_;
  whole_run_ = run_of(batch_, who);
  last_run_ = run_of(last_, who);
}

int64_t RankShare::count() const { return whole_ * whole_run_.size() + last_run_.size(); }

int64_t RankShare::position(int64_t k) const {
  SCALAI_CHECK(k >= 0 && k < count());
  const int64_t each = whole_run_.size(), in_whole = whole_ * each;
  if (k < in_whole) return begin_ + k / each * batch_ + whole_run_.begin + k % each;
  return begin_ + whole_ * batch_ + last_run_.begin + (k - in_whole);
}

int64_t RankShare::step_of(int64_t k) const { return first_step_ + (position(k) - begin_) / batch_; }

std::optional<int64_t> RankShare::index_of(int64_t position) const {
  if (position < begin_ || position >= begin_ + whole_ * batch_ + last_) return std::nullopt;
  const int64_t step = (position - begin_) / batch_, offset = (position - begin_) % batch_;
  const PositionRange run = step < whole_ ? whole_run_ : last_run_;
  if (offset < run.begin || offset >= run.end) return std::nullopt;
  return step * whole_run_.size() + offset - run.begin;
}

int64_t RankShare::count_before(int64_t step) const {
  const int64_t steps = step - first_step_;
  SCALAI_CHECK(steps >= 0 && steps <= whole_ + (last_ > 0 ? 1 : 0));
  return steps <= whole_ ? steps * whole_run_.size() : count();
}

}  // namespace scalai::datasets
