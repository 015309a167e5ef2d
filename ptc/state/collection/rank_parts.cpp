#include "ptc/state/collection/rank_parts.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "ptc/base/status.h"

namespace scalai::collection {
namespace {

struct Stride {  // of one axis of a mesh: coordinate = rank / below % size
  int below = 1;
  int size = 1;
};

// The axes of the mesh that a cut's or a pin's name means, fastest first.
std::vector<Stride> strides_of(const Mesh& mesh, const std::string& axis) {
  const std::vector<std::string> names = tensor::axes_of(axis);
  std::vector<Stride> strides;
  int below = 1;
  for (const MeshAxis& one : mesh.axes()) {
    if (std::find(names.begin(), names.end(), one.name) != names.end()) strides.push_back({below, one.size});
    below *= one.size;
  }
  return strides;
}

int coordinate(int rank, const std::vector<Stride>& strides) {
  int result = 0;
  int below = 1;
  for (const Stride& stride : strides) {
    result += below * (rank / stride.below % stride.size);
    below *= stride.size;
  }
  return result;
}

// The ranks that φ includes, ascending. Pins on one axis of the mesh leave out whole runs of ranks.
std::vector<int> ranks_of(const Mesh& mesh, const std::vector<Pin>& pins) {
  std::vector<int> ranks = {0};
  int below = mesh.size();
  for (auto axis = mesh.axes().rbegin(); axis != mesh.axes().rend(); ++axis) {  // slowest first: ranks ascend
    below /= axis->size;
    std::vector<int> allowed;
    for (int c = 0; c < axis->size; ++c) {
      const bool excluded = std::any_of(pins.begin(), pins.end(), [&](const Pin& pin) {
        return pin.axis == axis->name && !std::binary_search(pin.coordinates.begin(), pin.coordinates.end(), c);
      });
      if (!excluded) allowed.push_back(c);
    }
    std::vector<int> further;
    further.reserve(ranks.size() * allowed.size());
    for (const int rank : ranks) {
      for (const int c : allowed) further.push_back(rank + c * below);
    }
    ranks = std::move(further);
  }
  for (const Pin& pin : pins) {  // on several axes as one, or on one that the mesh does not have
    const std::vector<Stride> strides = strides_of(mesh, pin.axis);
    if (strides.size() == 1) continue;
    std::erase_if(ranks, [&](int rank) {
      return !std::binary_search(pin.coordinates.begin(), pin.coordinates.end(), coordinate(rank, strides));
    });
  }
  return ranks;
}

// What decides where the boxes of a tensor lie.
struct Placing {
  const LogicalTensor* tensor = nullptr;

  template <typename H>
  friend H AbslHashValue(H h, const Placing& p) {
    for (int dim = 0; dim < p.tensor->shape.rank(); ++dim) h = H::combine(std::move(h), p.tensor->shape[dim]);
    for (const tensor::Cut& cut : p.tensor->layout.cuts)
      h = H::combine(std::move(h), std::string_view(cut.axis), cut.dim, static_cast<int>(cut.rule), cut.start);
    for (const Pin& pin : p.tensor->pins) h = H::combine(std::move(h), std::string_view(pin.axis), pin.coordinates);
    return H::combine(std::move(h), p.tensor->mesh);
  }
  friend bool operator==(const Placing& a, const Placing& b) {
    return a.tensor->shape == b.tensor->shape && a.tensor->mesh == b.tensor->mesh && a.tensor->pins == b.tensor->pins &&
           a.tensor->layout == b.tensor->layout;
  }
};

}  // namespace

std::vector<RankPart> rank_parts(const Collection& collection, TensorId id) {
  const LogicalTensor& tensor = collection.tensors[static_cast<size_t>(id.value)];
  const Mesh& mesh = collection.meshes[static_cast<size_t>(tensor.mesh)];
  std::vector<std::vector<Stride>> strides;
  std::vector<tensor::AxisPosition> positions;
  for (const tensor::Cut& cut : tensor.layout.cuts) {
    strides.push_back(strides_of(mesh, cut.axis));
    positions.push_back({.size = mesh.axis_size(cut.axis), .coordinate = 0});
  }
  std::vector<RankPart> parts;
  absl::flat_hash_map<int64_t, size_t> known;  // by the coordinates of all cuts as one number
  for (const int rank : ranks_of(mesh, tensor.pins)) {
    int64_t key = 0;
    for (size_t cut = 0; cut < strides.size(); ++cut) {
      positions[cut].coordinate = coordinate(rank, strides[cut]);
      key = key * positions[cut].size + positions[cut].coordinate;
    }
    const auto [entry, fresh] = known.try_emplace(key, parts.size());
    if (fresh) parts.push_back({.buffer = tensor::pieces_of(tensor.layout, tensor.shape, positions), .ranks = {}});
    parts[entry->second].ranks.push_back(LogicalRank(rank));
  }
  return parts;
}

std::vector<std::vector<TensorId>> tensors_alike(const Collection& collection) {
  std::vector<std::vector<TensorId>> groups;
  absl::flat_hash_map<Placing, size_t> known;
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    const auto [entry, fresh] = known.try_emplace(Placing{&collection.tensors[i]}, groups.size());
    if (fresh) groups.emplace_back();
    groups[entry->second].push_back(TensorId(static_cast<int64_t>(i)));
  }
  return groups;
}

}  // namespace scalai::collection
