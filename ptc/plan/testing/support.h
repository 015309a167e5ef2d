#pragma once
// Small clusters, collections and planning cases of this folder's tests.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/plan/interpreter.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/planner.h"

namespace scalai::plan {

inline cluster::Cluster cluster_of(int hosts, int gpus_per_host) {
  cluster::Cluster cluster{.name = "test"};
  for (int i = 0; i < hosts; ++i) cluster.hosts.push_back({.first_device = i * gpus_per_host, .gpus = gpus_per_host});
  return cluster;
}

inline std::vector<DeviceId> devices(const std::vector<int>& indices) {
  std::vector<DeviceId> ids;
  for (const int index : indices) ids.push_back(DeviceId(index));
  return ids;
}

inline std::vector<DeviceId> first_devices(int count, int first = 0) {
  std::vector<DeviceId> ids;
  for (int i = 0; i < count; ++i) ids.push_back(DeviceId(first + i));
  return ids;
}

inline tensor::Cut cut_over(std::string axis, int dim, tensor::SplitRule rule = tensor::SplitRule::kBalanced,
                            int64_t multiple = 1) {
  return {.axis = std::move(axis), .dim = dim, .rule = rule, .multiple = multiple};
}

// F32 tensors over one mesh.
inline collection::LogicalTensor tensor_of(std::string name, tensor::Shape shape, std::vector<tensor::Cut> cuts,
                                           std::vector<collection::Pin> pins = {}) {
  return {.name = std::move(name), .shape = shape, .layout = {std::move(cuts)}, .pins = std::move(pins)};
}

inline collection::Collection collection_of(std::vector<collection::MeshAxis> axes, std::vector<DeviceId> devices,
                                            std::vector<collection::LogicalTensor> tensors) {
  return {.name = "test",
          .meshes = {collection::Mesh(std::move(axes))},
          .tensors = std::move(tensors),
          .device_of_rank = std::move(devices)};
}

// One tensor "w" cut over axis "x" of as many parts as there are devices.
inline collection::Collection one_tensor(tensor::Shape shape, tensor::Cut cut, const std::vector<DeviceId>& devices) {
  cut.axis = "x";
  return collection_of({{"x", static_cast<int>(devices.size())}}, devices, {tensor_of("w", shape, {cut})});
}

// One tensor "w", whole on each of the devices.
inline collection::Collection replicas(tensor::Shape shape, const std::vector<DeviceId>& devices) {
  return collection_of({{"dp", static_cast<int>(devices.size())}}, devices, {tensor_of("w", shape, {})});
}

struct Case {
  collection::Collection from, to;
  cluster::Cluster cluster = cluster_of(4, 4);
  collection::Residency residency;
  PlannerOptions options;
  PlacementOptions placement = {};
  std::set<DeviceId> leaving = {};

  PlannerInput input() const { return {from, to, cluster, residency, options, leaving}; }
  InterpreterInput oracle() const { return {from, to, cluster, residency}; }
  // The plan, after both interpreters accepted it.
  Plan plan() const {
    auto plan = make_plan(input());
    EXPECT_EQ(message_of(plan.status()), "");
    EXPECT_EQ(message_of(interpret(*plan, oracle())), "");
    int64_t elements = 0;
    for (const auto& tensor : to.tensors) elements += tensor.shape.elements();
    if (elements <= int64_t{1} << 20) {
      EXPECT_EQ(message_of(interpret_elements(*plan, oracle())), "");
    }
    return *plan;
  }
};

struct Sizes {
  int tp = 1, pp = 1, dp = 1;
  int world() const { return tp * pp * dp; }
  std::string str() const {
    return "tp" + std::to_string(tp) + ",pp" + std::to_string(pp) + ",dp" + std::to_string(dp);
  }
};

// Sixteen layers with one tensor each (column, row and norm in turn), tied embedding, step counter; ranks in the order
// tp, dp, pp. Every size up to 16 fits: the splits are balanced.
inline collection::Collection grid_collection(const Sizes& sizes, const std::vector<DeviceId>& devices) {
  std::vector<collection::LogicalTensor> tensors;
  for (int layer = 0; layer < 16; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    const std::vector<collection::Pin> stage = {{"pp", {layer * sizes.pp / 16}}};
    if (layer % 3 == 0) tensors.push_back(tensor_of(name + ".up", {19, 2}, {cut_over("tp", 0)}, stage));
    if (layer % 3 == 1) tensors.push_back(tensor_of(name + ".down", {3, 17}, {cut_over("tp", 1)}, stage));
    if (layer % 3 == 2) tensors.push_back(tensor_of(name + ".norm", {5}, {}, stage));
  }
  std::vector<int> ends = {0};
  if (sizes.pp > 1) ends.push_back(sizes.pp - 1);
  tensors.push_back(
      tensor_of("embedding", {41, 2}, {cut_over("tp", 0, tensor::SplitRule::kPadded, 4)}, {{"pp", ends}}));
  tensors.push_back(tensor_of("step", {}, {}, {{"pp", {0}}, {"tp", {0}}}));
  collection::Collection collection =
      collection_of({{"tp", sizes.tp}, {"dp", sizes.dp}, {"pp", sizes.pp}}, devices, tensors);
  collection.name = sizes.str();
  return collection;
}

// `count` different devices of the first `bound`, in random order.
inline std::vector<DeviceId> random_devices(Random& random, int count, int bound) {
  std::vector<DeviceId> ids = first_devices(bound);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::swap(ids[i], ids[static_cast<size_t>(random.between(static_cast<int64_t>(i), bound - 1))]);
  }
  ids.resize(static_cast<size_t>(count));
  return ids;
}

inline Sizes random_sizes(Random& random, int most) {
  Sizes sizes;
  do {
    sizes = {static_cast<int>(random.between(1, 4)), static_cast<int>(random.between(1, 4)),
             static_cast<int>(random.between(1, 4))};
  } while (sizes.world() > most);
  return sizes;
}

}  // namespace scalai::plan
