#include "ptc/plan/internal/interpreter_holders.h"

#include <fmt/format.h>

#include <algorithm>

namespace scalai::plan::internal {

using collection::LogicalTensor;

std::vector<Holders::Part> Holders::parts_of(TensorId id) {
  const LogicalTensor& tensor = collection_.tensors[static_cast<size_t>(id.value)];
  std::vector<Part> parts;
  for (const Class& one : classes_of(tensor)) {
    for (const tensor::Piece& piece : tensor::pieces_of(tensor.layout, tensor.shape, one.positions).pieces)
      parts.push_back({piece.box, one.group});
  }
  return parts;
}

const std::vector<Holders::Class>& Holders::classes_of(const LogicalTensor& tensor) {
  std::string key = fmt::format("{}", tensor.mesh);
  for (const tensor::Cut& cut : tensor.layout.cuts) key += "/" + cut.axis;
  for (const collection::Pin& pin : tensor.pins)
    key += fmt::format("!{}={}", pin.axis, fmt::join(pin.coordinates, ","));
  const auto known = classes_.find(key);
  return known != classes_.end() ? known->second : classes_.emplace(key, make_classes(tensor)).first->second;
}

std::vector<Holders::Class> Holders::make_classes(const LogicalTensor& tensor) {
  const collection::Mesh& mesh = collection_.meshes[static_cast<size_t>(tensor.mesh)];
  std::vector<std::pair<std::vector<int>, DeviceId>> living;  // coordinates on the cuts' axes
  for (size_t rank = 0; rank < collection_.device_of_rank.size(); ++rank) {
    const DeviceId device = collection_.device_of_rank[rank];
    const bool here = std::all_of(tensor.pins.begin(), tensor.pins.end(), [&](const collection::Pin& pin) {
      const int at = coordinates(tensor.mesh, pin.axis)[rank];
      return std::find(pin.coordinates.begin(), pin.coordinates.end(), at) != pin.coordinates.end();
    });
    if (!here || (!lost_.empty() && lost_.contains(device))) continue;
    std::vector<int>& at = living.emplace_back(std::vector<int>(), device).first;
    for (const tensor::Cut& cut : tensor.layout.cuts) at.push_back(coordinates(tensor.mesh, cut.axis)[rank]);
  }
  std::sort(living.begin(), living.end());
  std::vector<Class> classes;
  for (size_t begin = 0, end = 0; begin < living.size(); begin = end) {
    std::vector<DeviceId> devices;
    for (; end < living.size() && living[end].first == living[begin].first; ++end)
      devices.push_back(living[end].second);
    Class& one = classes.emplace_back();
    for (size_t i = 0; i < tensor.layout.cuts.size(); ++i) {
      one.positions.push_back(
          {.size = mesh.axis_size(tensor.layout.cuts[i].axis), .coordinate = living[begin].first[i]});
    }
    one.group = add_group(std::move(devices));
  }
  return classes;
}

const std::vector<int>& Holders::coordinates(int mesh, const std::string& axis) {
  std::vector<int>& list = coordinates_[{mesh, axis}];
  if (list.empty()) {
    for (int rank = 0; rank < collection_.ranks(); ++rank)
      list.push_back(collection_.meshes[static_cast<size_t>(mesh)].coordinate(LogicalRank(rank), axis));
  }
  return list;
}

int32_t Holders::add_group(std::vector<DeviceId> devices) {
  Group group{.devices = std::move(devices), .hosts = {}};
  for (const DeviceId device : group.devices) group.hosts.push_back(cluster_.host_of(device));
  std::sort(group.hosts.begin(), group.hosts.end());
  group.hosts.erase(std::unique(group.hosts.begin(), group.hosts.end()), group.hosts.end());
  groups_.push_back(std::move(group));
  return static_cast<int32_t>(groups_.size()) - 1;
}

}  // namespace scalai::plan::internal
