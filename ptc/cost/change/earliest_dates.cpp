#include "ptc/cost/change/earliest_dates.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::change {

void EarliestDates::push_back(double date) {
  if (size_ == leaves_) grow();
  set(size_++, date);
}

void EarliestDates::pop_back() {
  SCALAI_CHECK(size_ > 0);
  set(--size_, std::numeric_limits<double>::infinity());
}

void EarliestDates::set(size_t position, double date) {
  size_t node = leaves_ + position;
  tree_[node] = date;
  while (node > 1) {
    node /= 2;
    const double earlier = std::min(tree_[2 * node], tree_[2 * node + 1]);
    if (tree_[node] == earlier) return;
    tree_[node] = earlier;
  }
}

void EarliestDates::grow() {
  const std::vector<double> old(tree_.begin() + static_cast<std::ptrdiff_t>(leaves_), tree_.end());
  leaves_ *= 2;
  tree_.assign(2 * leaves_, std::numeric_limits<double>::infinity());
  std::copy(old.begin(), old.end(), tree_.begin() + static_cast<std::ptrdiff_t>(leaves_));
  for (size_t node = leaves_ - 1; node > 0; --node) tree_[node] = std::min(tree_[2 * node], tree_[2 * node + 1]);
}

std::vector<size_t> EarliestDates::until(double limit) const {
  std::vector<size_t> positions;
  find(1, limit, positions);
  return positions;
}

void EarliestDates::find(size_t node, double limit, std::vector<size_t>& positions) const {
  if (tree_[node] > limit || std::isinf(tree_[node])) return;
  if (node >= leaves_) return positions.push_back(node - leaves_);
  find(2 * node, limit, positions);
  find(2 * node + 1, limit, positions);
}

}  // namespace scalai::change
