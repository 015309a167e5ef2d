#include "ptc/plan/internal/spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"

namespace scalai::plan::internal {

using collection::Collection;
using collection::LogicalTensor;
using tensor::Box;

int32_t DeviceSets::intern(std::vector<DeviceId> devices) {
  size_t hash = devices.size();
  for (const DeviceId device : devices) hash = hash * 0x9e3779b97f4a7c15U + static_cast<size_t>(device.value);
  const auto [entry, fresh] = last_of_.try_emplace(hash, -1);
  for (int32_t set = entry->second; set >= 0; set = previous_[static_cast<size_t>(set)]) {
    if ((*this)[set] == devices) return set;
  }
  previous_.push_back(entry->second);
  entry->second = size();
  sets_.push_back(std::move(devices));
  return entry->second;
}

Side::Side(const Collection& collection, std::set<DeviceId> lost)
    : collection_(collection),
      lost_(std::move(lost)),
      all_lost_(std::all_of(collection.device_of_rank.begin(), collection.device_of_rank.end(),
                            [this](DeviceId device) { return lost_.contains(device); })) {}

std::vector<Side::Axis> Side::axes_of(const LogicalTensor& tensor) const {
  std::vector<Axis> axes;
  for (const collection::MeshAxis& axis : collection_.meshes[static_cast<size_t>(tensor.mesh)].axes()) {
    axes.push_back({.size = axis.size});
    for (const collection::Pin& pin : tensor.pins) {
      if (pin.axis == axis.name) axes.back().allowed = &pin.coordinates;
    }
  }
  return axes;
}

std::vector<Side::CutAxes> Side::cuts_of(const LogicalTensor& tensor) const {
  const auto& axes = collection_.meshes[static_cast<size_t>(tensor.mesh)].axes();
  std::vector<CutAxes> cuts;
  for (const tensor::Cut& cut : tensor.layout.cuts) {
    CutAxes one;
    const std::vector<std::string> names = tensor::axes_of(cut.axis);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (std::find(names.begin(), names.end(), axes[i].name) == names.end()) continue;
      one.axes.push_back(i);
      one.size *= axes[i].size;
    }
    one.end = one.size;
    if (cut.rule == tensor::SplitRule::kBucket && cut.bucket >= one.size) {
      const int64_t share = cut.bucket / one.size;
      one.begin = static_cast<int>(std::min<int64_t>(cut.start / share, one.size));
      one.end =
          static_cast<int>(std::min<int64_t>((cut.start + tensor.shape.elements() + share - 1) / share, one.size));
    }
    cuts.push_back(std::move(one));
  }
  return cuts;
}

std::vector<HeldBox> Side::spread_of(TensorId id) {
  if (all_lost_) return {};  // a restore of the whole state
  const LogicalTensor& tensor = collection_.tensors[static_cast<size_t>(id.value)];
  std::vector<Axis> axes = axes_of(tensor);
  std::vector<tensor::AxisPosition> positions(tensor.layout.cuts.size());
  std::vector<HeldBox> boxes;
  pins_ = number_of_pins(tensor);
  visit_parts(tensor, cuts_of(tensor), 0, axes, positions, boxes);
  std::sort(boxes.begin(), boxes.end(), [](const HeldBox& a, const HeldBox& b) { return a.box < b.box; });
  merge_equal(boxes);
  return boxes;
}

void Side::visit_parts(const LogicalTensor& tensor, const std::vector<CutAxes>& cuts, size_t cut,
                       std::vector<Axis>& axes, std::vector<tensor::AxisPosition>& positions,
                       std::vector<HeldBox>& boxes) {
  if (cut == cuts.size()) {
    const tensor::LocalBuffer local = tensor::pieces_of(tensor.layout, tensor.shape, positions);
    if (local.pieces.empty()) return;
    const int32_t set = holders_of(axes, tensor.mesh);
    if (set < 0) return;
    for (const tensor::Piece& piece : local.pieces) boxes.push_back({piece.box, set});
    return;
  }
  for (int part = cuts[cut].begin; part < cuts[cut].end; ++part) {
    int rest = part;
    for (const size_t axis : cuts[cut].axes) {
      axes[axis].fixed = rest % axes[axis].size;
      rest /= axes[axis].size;
    }
    positions[cut] = {.size = cuts[cut].size, .coordinate = part};
    visit_parts(tensor, cuts, cut + 1, axes, positions, boxes);
  }
  for (const size_t axis : cuts[cut].axes) axes[axis].fixed = -1;
}

int32_t Side::number_of_pins(const LogicalTensor& tensor) {
  std::vector<std::pair<std::string, std::vector<int>>> pins;
  for (const collection::Pin& pin : tensor.pins) pins.emplace_back(pin.axis, pin.coordinates);
  return known_pins_.try_emplace({tensor.mesh, std::move(pins)}, static_cast<int32_t>(known_pins_.size()))
      .first->second;
}

int32_t Side::holders_of(const std::vector<Axis>& axes, int mesh) {
  int64_t coordinates = 0;
  for (const Axis& axis : axes) {
    if (axis.allowed != nullptr && axis.fixed >= 0 &&
        !std::binary_search(axis.allowed->begin(), axis.allowed->end(), axis.fixed))
      return -1;
    coordinates = coordinates * (axis.size + 1) + axis.fixed + 1;
  }
  const auto [entry, fresh] = set_of_.try_emplace({pins_, coordinates}, -1);
  if (!fresh) return entry->second;
  std::vector<DeviceId> devices = devices_of(axes, mesh);
  if (!devices.empty()) entry->second = sets_.intern(std::move(devices));
  return entry->second;
}

// The ranks with these coordinates, ascending, as living devices.
std::vector<DeviceId> Side::devices_of(const std::vector<Axis>& axes, int mesh) const {
  std::vector<int> ranks = {0};
  int stride = collection_.meshes[static_cast<size_t>(mesh)].size();
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {  // the slowest first: ranks come out ascending
    stride /= axis->size;
    if (axis->fixed >= 0) {  // holders_of() has seen that it is allowed
      for (int& rank : ranks) rank += axis->fixed * stride;
      continue;
    }
    std::vector<int> further;
    for (const int rank : ranks) {
      for (int coordinate = 0; coordinate < axis->size; ++coordinate) {
        if (axis->allowed != nullptr && !std::binary_search(axis->allowed->begin(), axis->allowed->end(), coordinate))
          continue;
        further.push_back(rank + coordinate * stride);
      }
    }
    ranks = std::move(further);
  }
  std::vector<DeviceId> devices;
  devices.reserve(ranks.size());
  for (const int rank : ranks) {
    const DeviceId device = collection_.device_of_rank[static_cast<size_t>(rank)];
    if (lost_.empty() || !lost_.contains(device)) devices.push_back(device);
  }
  return devices;
}

// Different parts may hold the same box: one entry.
void Side::merge_equal(std::vector<HeldBox>& boxes) {
  size_t last = 0;
  for (size_t i = 1; i < boxes.size(); ++i) {
    if (boxes[last].box != boxes[i].box) {
      boxes[++last] = boxes[i];
    } else if (boxes[last].set != boxes[i].set) {
      std::vector<DeviceId> devices = sets_[boxes[last].set];
      devices.insert(devices.end(), sets_[boxes[i].set].begin(), sets_[boxes[i].set].end());
      boxes[last].set = sets_.intern(std::move(devices));
    }
  }
  if (!boxes.empty()) boxes.resize(last + 1);
}

std::string placement_key(const LogicalTensor& tensor) {
  std::string key = fmt::format("{}{}m{}", tensor.shape.str(), name_of(tensor.dtype), tensor.mesh);
  for (const tensor::Cut& cut : tensor.layout.cuts) {
    key += fmt::format("|{} {} {} {} {} {} {}", cut.axis, cut.dim, static_cast<int>(cut.rule), cut.multiple, cut.groups,
                       cut.start, cut.bucket);
    for (const int64_t bound : cut.bounds) key += fmt::format(",{}", bound);
  }
  for (const collection::Pin& pin : tensor.pins) {
    key += fmt::format("!{}", pin.axis);
    for (const int coordinate : pin.coordinates) key += fmt::format(",{}", coordinate);
  }
  return key;
}

std::vector<std::vector<TensorId>> alike(const Collection& from, const Collection& to,
                                         const std::vector<std::string>& own) {
  std::vector<std::vector<TensorId>> groups;
  absl::flat_hash_map<std::string, size_t> known;
  for (size_t i = 0; i < to.tensors.size(); ++i) {
    std::string key = placement_key(from.tensors[i]) + "/" + placement_key(to.tensors[i]);
    if (!own.empty()) key += "/" + own[i];
    const auto [entry, fresh] = known.try_emplace(std::move(key), groups.size());
    if (fresh) groups.emplace_back();
    groups[entry->second].push_back(TensorId(static_cast<int64_t>(i)));
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
