#include "apps/exec/calibration_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

using collection::Collection;
using collection::LogicalTensor;
using collection::Mesh;
using collection::MeshAxis;

constexpr int64_t kColumnsOfPart = 1024;  // a slice of a row is 4 KiB, as in models of a few billion parameters
constexpr int64_t kElementBytes = 4;

// Tensors that can be cut into as many parts by rows as by columns, and into so many groups by rows before. A part of
// each has `bytes` / `count`.
std::vector<LogicalTensor> tensors(int parts, int64_t bytes, int count = kCalibrationBoxes, int groups = 1) {
  const int64_t columns = kColumnsOfPart * parts;
  const int64_t rows = std::max<int64_t>(1, bytes / (count * kElementBytes * columns));
  std::vector<LogicalTensor> list;
  for (int i = 0; i < count; ++i) {
    LogicalTensor& tensor = list.emplace_back();
    tensor.name = fmt::format("layers.{}.part.{}", i / 32, i % 32);
    tensor.shape = tensor::Shape{rows * parts * groups, columns};
  }
  return list;
}

Collection cut(std::vector<LogicalTensor> tensors, std::vector<MeshAxis> axes, int dim, std::vector<DeviceId> devices) {
  for (LogicalTensor& tensor : tensors) tensor.layout.cuts = {{.axis = "part", .dim = dim, .bounds = {}}};
  Collection result{.name = dim == 0 ? "rows" : "columns",
                    .meshes = {Mesh(std::move(axes))},
                    .tensors = std::move(tensors),
                    .device_of_rank = std::move(devices)};
  return result;
}

std::vector<DeviceId> first_devices(const cluster::Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (const cluster::Host& host : cluster.hosts) devices.push_back(DeviceId(host.first_device));
  return devices;
}

std::vector<DeviceId> all_devices(const cluster::Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < cluster.device_count(); ++i) devices.push_back(DeviceId(i));
  return devices;
}

std::vector<DeviceId> rotated(std::vector<DeviceId> devices) {
  std::rotate(devices.begin(), devices.begin() + 1, devices.end());
  return devices;
}

CalibrationPlan moved(std::string series, std::string name, int64_t bytes, std::vector<DeviceId> from,
                      std::vector<DeviceId> to) {
  const int parts = static_cast<int>(from.size());
  const std::vector<LogicalTensor> list = tensors(parts, bytes);
  return {std::move(series), std::move(name), cut(list, {{"part", parts}}, 0, std::move(from)),
          cut(list, {{"part", parts}}, 0, std::move(to))};
}

}  // namespace

CalibrationPlan pair_plan(const cluster::Cluster& cluster, HostId from, HostId to, int64_t bytes) {
  const std::vector<DeviceId> devices = first_devices(cluster);
  return moved("pair", fmt::format("h{} to h{}", from.value, to.value), bytes,
               {devices[static_cast<size_t>(from.value)]}, {devices[static_cast<size_t>(to.value)]});
}

CalibrationPlan shift_plan(const cluster::Cluster& cluster, int64_t bytes) {
  const std::vector<DeviceId> devices = first_devices(cluster);
  return moved("together", "each host to the next", bytes, devices, rotated(devices));
}

CalibrationPlan exchange_plan(const cluster::Cluster& cluster, int64_t bytes) {
  std::vector<DeviceId> devices = first_devices(cluster);
  devices.resize(devices.size() / 2 * 2);
  const int pairs = static_cast<int>(devices.size()) / 2;
  const std::vector<LogicalTensor> list =
      tensors(2, bytes, kCalibrationBoxes / 2, pairs);  // a box of its own and one of the other
  const std::vector<MeshAxis> axes = {{"pair", pairs}, {"part", 2}};
  const auto side = [&](int dim) {
    Collection collection = cut(list, axes, dim, devices);
    for (LogicalTensor& tensor : collection.tensors)
      tensor.layout.cuts.insert(tensor.layout.cuts.begin(), {.axis = "pair", .dim = 0, .bounds = {}});
    return collection;
  };
  return {"together", "each host and its neighbour half of theirs", side(0), side(1)};
}

CalibrationPlan same_host_plan(const cluster::Cluster& cluster, int64_t bytes) {
  const std::vector<DeviceId> devices = cluster.devices_of(HostId(0));
  return moved("same host", "each device of h0 to the next", bytes, devices, rotated(devices));
}

CalibrationPlan same_device_plan(const cluster::Cluster& cluster, int64_t bytes) {
  SCALAI_CHECK(cluster.device_count() >= 2);
  const std::vector<DeviceId> devices = {DeviceId(0), DeviceId(1)};
  const std::vector<LogicalTensor> list = tensors(2, bytes / 2);  // of which a replica has both parts
  Collection from = cut(list, {{"part", 2}}, 0, devices);
  for (LogicalTensor& tensor : from.tensors) tensor.layout.cuts.clear();
  from.name = "replicas";
  return {"same device", "g0 and g1 half of their own", std::move(from), cut(list, {{"part", 2}}, 0, devices)};
}

CalibrationPlan storage_plan(const cluster::Cluster& cluster, int64_t bytes) {
  const std::vector<DeviceId> devices = all_devices(cluster);
  return moved("read", "all devices from storage", bytes, devices, devices);
}

}  // namespace scalai::apps
