#pragma once
// Who holds which box of a tensor on one side of a change, and which tensors are alike.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "ptc/state/collection/collection.h"

namespace scalai::plan::internal {

// Lists of devices by number: the same list has the same number. A big job has many boxes and few lists.
class DeviceSets {
 public:
  int32_t intern(std::vector<DeviceId> devices);
  const std::vector<DeviceId>& operator[](int32_t set) const { return sets_[static_cast<size_t>(set)]; }
  int32_t size() const { return static_cast<int32_t>(sets_.size()); }

 private:
  std::vector<std::vector<DeviceId>> sets_;
  absl::flat_hash_map<size_t, int32_t> last_of_;  // the last list with this hash
  std::vector<int32_t> previous_;                 // by list: the one before it with the same hash; −1 = none
};

// A box and who holds it: a list of devices in rank order.
struct HeldBox {
  tensor::Box box;
  int32_t set = 0;
};

// One side of a change without the devices in `lost`. Looks only at the parts of a layout, not at all ranks, and knows
// the holders of each part by its coordinates, so that asking for many tensors stays cheap. The collection outlives it.
class Side {
 public:
  explicit Side(const collection::Collection& collection, std::set<DeviceId> lost = {});

  // Distinct boxes in lexicographic order. Within a valid collection they are disjoint. A box without living holders is
  // not there.
  std::vector<HeldBox> spread_of(TensorId tensor);
  const DeviceSets& sets() const { return sets_; }
  DeviceSets take_sets() { return std::move(sets_); }

 private:
  // What a rank's coordinate on one axis of the mesh may be: all, one of `allowed` (a pin), or the part's.
  struct Axis {
    int size = 1;
    const std::vector<int>* allowed = nullptr;
    int fixed = -1;
  };
  // A cut with its axes (indices into the mesh's) and the parts it may make.
  struct CutAxes {
    std::vector<size_t> axes;
    int size = 1;
    int begin = 0, end = 1;  // parts that are not known to be empty
  };

  std::vector<Axis> axes_of(const collection::LogicalTensor& tensor) const;
  std::vector<CutAxes> cuts_of(const collection::LogicalTensor& tensor) const;
  void visit_parts(const collection::LogicalTensor& tensor, const std::vector<CutAxes>& cuts, size_t cut,
                   std::vector<Axis>& axes, std::vector<tensor::AxisPosition>& positions, std::vector<HeldBox>& boxes);
  int32_t number_of_pins(const collection::LogicalTensor& tensor);  // equal pins on the same mesh: equal numbers
  int32_t holders_of(const std::vector<Axis>& axes, int mesh);
  std::vector<DeviceId> devices_of(const std::vector<Axis>& axes, int mesh) const;
  void merge_equal(std::vector<HeldBox>& boxes);

  const collection::Collection& collection_;
  const std::set<DeviceId> lost_;
  const bool all_lost_;
  DeviceSets sets_;

  using Pins = std::vector<std::pair<std::string, std::vector<int>>>;
  std::map<std::pair<int, Pins>, int32_t> known_pins_;  // by mesh and pins
  int32_t pins_ = 0;                                    // of the tensor at hand
  // By pins and coordinates on the mesh's axes; −1 = none.
  absl::flat_hash_map<std::pair<int32_t, int64_t>, int32_t> set_of_;
};

// Tensors that lie alike on both sides, so that one plan serves them all; in order of their first member, members in
// order. `own` says more of a tensor: only those with the same value are alike.
std::vector<std::vector<TensorId>> alike(const collection::Collection& from, const collection::Collection& to,
                                         const std::vector<std::string>& own = {});

// Everything about a tensor of a collection that decides where its boxes go, as text to compare.
std::string placement_key(const collection::LogicalTensor& tensor);

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
