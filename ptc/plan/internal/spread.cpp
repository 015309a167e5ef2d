#include "ptc/plan/internal/spread.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace scalai::plan::internal {
namespace {

using collection::Collection;
using collection::LogicalTensor;
using tensor::Box;

}  // namespace

const std::vector<int>& Side::coordinates(int mesh_index, const std::string& axis) {
  const auto [entry, fresh] = coordinates_.try_emplace({mesh_index, axis});
  if (fresh) {
    const collection::Mesh& mesh = collection_.meshes[static_cast<size_t>(mesh_index)];
    for (int rank = 0; rank < collection_.ranks(); ++rank)
      entry->second.push_back(mesh.coordinate(LogicalRank(rank), axis));
  }
  return entry->second;
}

std::vector<HeldBox> Side::spread_of(TensorId id, const std::set<DeviceId>& lost) {
  const LogicalTensor& tensor = collection_.tensors[static_cast<size_t>(id.value)];
  const collection::Mesh& mesh = collection_.meshes[static_cast<size_t>(tensor.mesh)];
  std::vector<const std::vector<int>*> pinned;
  for (const collection::Pin& pin : tensor.pins) pinned.push_back(&coordinates(tensor.mesh, pin.axis));
  std::vector<std::pair<const std::vector<int>*, int>> cut;  // coordinates, size of the axis
  for (const tensor::Cut& one : tensor.layout.cuts) {
    cut.emplace_back(&coordinates(tensor.mesh, one.axis), mesh.axis_size(one.axis));
  }
  const auto holds = [&](size_t rank) {
    for (size_t i = 0; i < pinned.size(); ++i) {
      const std::vector<int>& allowed = tensor.pins[i].coordinates;
      if (!std::binary_search(allowed.begin(), allowed.end(), (*pinned[i])[rank])) return false;
    }
    return true;
  };
  std::map<int64_t, std::pair<int, std::vector<DeviceId>>> parts;  // part of the layout → first rank, living holders
  for (int rank = 0; rank < collection_.ranks(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (!holds(at)) continue;
    int64_t part = 0;
    for (const auto& [coordinate, size] : cut) part = part * size + (*coordinate)[at];
    auto& [first, devices] = parts.try_emplace(part, rank, std::vector<DeviceId>()).first->second;
    const DeviceId device = collection_.device_of_rank[at];
    if (lost.empty() || lost.count(device) == 0) devices.push_back(device);
  }
  std::vector<HeldBox> boxes;
  for (const auto& [part, holders] : parts) {
    const auto& [first, devices] = holders;
    if (devices.empty()) continue;
    for (const tensor::Piece& piece : collection_.pieces(id, LogicalRank(first)).pieces)
      boxes.push_back({piece.box, devices});
  }
  std::sort(boxes.begin(), boxes.end(), [](const HeldBox& a, const HeldBox& b) { return a.box < b.box; });
  // Different parts may hold the same box: one entry.
  std::vector<HeldBox> distinct;
  for (HeldBox& held : boxes) {
    if (!distinct.empty() && distinct.back().box == held.box) {
      distinct.back().devices.insert(distinct.back().devices.end(), held.devices.begin(), held.devices.end());
    } else {
      distinct.push_back(std::move(held));
    }
  }
  return distinct;
}

namespace {

// Everything about a tensor that decides where its boxes go, as a value to compare.
bool placed_alike(const LogicalTensor& a, const LogicalTensor& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.mesh == b.mesh && a.layout == b.layout && a.pins == b.pins;
}

}  // namespace

std::vector<std::vector<TensorId>> alike(const Collection& from, const Collection& to,
                                         const collection::Residency& residency) {
  std::set<TensorId> alone;
  for (const collection::ExtraHolder& extra : residency.extra) alone.insert(extra.tensor);
  std::vector<std::vector<TensorId>> groups;
  // Candidates by shape and dtype; inside, few different placements.
  std::map<std::tuple<std::string, int>, std::vector<size_t>> by_shape;
  for (size_t i = 0; i < to.tensors.size(); ++i) {
    const TensorId id(static_cast<int64_t>(i));
    if (alone.count(id) != 0) {
      groups.push_back({id});
      continue;
    }
    std::vector<size_t>& candidates = by_shape[{to.tensors[i].shape.str(), static_cast<int>(to.tensors[i].dtype)}];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](size_t group) {
      const auto first = static_cast<size_t>(groups[group].front().value);
      return placed_alike(from.tensors[first], from.tensors[i]) && placed_alike(to.tensors[first], to.tensors[i]);
    });
    if (same != candidates.end()) {
      groups[*same].push_back(id);
    } else {
      candidates.push_back(groups.size());
      groups.push_back({id});
    }
  }
  return groups;
}

BoxIndex::BoxIndex(const std::vector<HeldBox>& boxes) : boxes_(boxes), order_(boxes.size()) {
  std::iota(order_.begin(), order_.end(), size_t{0});
  if (boxes.empty() || boxes.front().box.rank == 0) {
    highest_.assign(boxes.size(), 0);
    return;
  }
  size_t most = 0;
  for (size_t dim = 0; dim < static_cast<size_t>(boxes.front().box.rank); ++dim) {
    std::vector<int64_t> starts;
    for (const HeldBox& held : boxes) starts.push_back(held.box.lo[dim]);
    std::sort(starts.begin(), starts.end());
    const auto distinct = static_cast<size_t>(std::unique(starts.begin(), starts.end()) - starts.begin());
    if (distinct > most) {
      most = distinct;
      dim_ = dim;
    }
  }
  std::stable_sort(order_.begin(), order_.end(),
                   [&](size_t a, size_t b) { return boxes[a].box.lo[dim_] < boxes[b].box.lo[dim_]; });
  int64_t highest = 0;
  for (const size_t index : order_) highest_.push_back(highest = std::max(highest, boxes[index].box.hi[dim_]));
}

std::vector<size_t> BoxIndex::candidates(const Box& box) const {
  std::vector<size_t> found;
  if (boxes_.empty()) return found;
  if (box.rank == 0) return {0};
  const int64_t low = box.lo[dim_];
  const int64_t high = box.hi[dim_];
  // highest_ rises: everything before the first that reaches beyond `low` ends at or before it.
  const auto begin = static_cast<size_t>(std::upper_bound(highest_.begin(), highest_.end(), low) - highest_.begin());
  for (size_t i = begin; i < order_.size() && boxes_[order_[i]].box.lo[dim_] < high; ++i) {
    if (boxes_[order_[i]].box.hi[dim_] > low) found.push_back(order_[i]);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace scalai::plan::internal
