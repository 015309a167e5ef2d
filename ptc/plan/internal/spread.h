#pragma once
// Who holds which box of a tensor on one side of a change, and which tensors are alike.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ptc/collection/collection.h"

namespace scalai::plan::internal {

// A box and its holders, in rank order.
struct HeldBox {
  tensor::Box box;
  std::vector<DeviceId> devices;
};

// One side of a change. Keeps each axis' coordinates of all ranks, so that asking for many tensors stays cheap. The
// collection outlives it.
class Side {
 public:
  explicit Side(const collection::Collection& collection) : collection_(collection) {}

  // Distinct boxes in lexicographic order. Within a valid collection they are disjoint. A box whose holders are all in
  // `lost` is not there.
  std::vector<HeldBox> spread_of(TensorId tensor, const std::set<DeviceId>& lost);

 private:
  const std::vector<int>& coordinates(int mesh, const std::string& axis);  // by rank

  const collection::Collection& collection_;
  std::map<std::pair<int, std::string>, std::vector<int>> coordinates_;
};

// Tensors that have the same shape, dtype, mesh, layout and pins on both sides, so that one plan serves them all; in
// order of their first member, members in order. Tensors with a redundant copy stand alone.
std::vector<std::vector<TensorId>> alike(const collection::Collection& from, const collection::Collection& to,
                                         const collection::Residency& residency);

// Finds the boxes of a list of disjoint ones that share elements with a given box, without looking at all of them: the
// list is sorted along the dimension in which it is cut most.
class BoxIndex {
 public:
  explicit BoxIndex(const std::vector<HeldBox>& boxes);
  // Calls visit(index, common part) in order of the list's lexicographic order.
  template <class Visit>
  void overlaps(const tensor::Box& box, Visit visit) const {
    for (const size_t index : candidates(box)) {
      if (const auto common = tensor::intersect(boxes_[index].box, box)) visit(index, *common);
    }
  }

 private:
  std::vector<size_t> candidates(const tensor::Box& box) const;

  const std::vector<HeldBox>& boxes_;
  size_t dim_ = 0;                // where the list is cut most
  std::vector<size_t> order_;     // by low end along dim_
  std::vector<int64_t> highest_;  // highest high end along dim_ among order_[0 … i]
};

}  // namespace scalai::plan::internal
