#pragma once
// Dates in a list, with the first of them at hand although they change all the time. One thread.

#include <cstddef>
#include <limits>
#include <vector>

namespace scalai::change {

// A list that grows and shrinks at its end. Every change takes time in proportion to the logarithm of its length.
class EarliestDates {
 public:
  size_t size() const { return size_; }
  void push_back(double date);
  void pop_back();                         // CHECK: not empty
  void set(size_t position, double date);  // position < size()
  double operator[](size_t position) const { return tree_[leaves_ + position]; }
  double first() const { return tree_[1]; }  // infinity if the list is empty
  // The positions of finite dates up to `limit`, ascending. Takes time in proportion to their number.
  std::vector<size_t> until(double limit) const;

 private:
  void grow();
  void find(size_t node, double limit, std::vector<size_t>& positions) const;

  // A tournament: node n is the earlier of nodes 2n and 2n + 1, position p is node leaves_ + p.
  size_t size_ = 0;
  size_t leaves_ = 1;  // a power of two
  std::vector<double> tree_ = {0, std::numeric_limits<double>::infinity()};
};

}  // namespace scalai::change
