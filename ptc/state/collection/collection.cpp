#include "ptc/state/collection/collection.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/state/collection/rank_parts.h"

namespace scalai::collection {

bool Collection::holds(const LogicalTensor& tensor, LogicalRank rank) const {
  const Mesh& mesh = meshes[static_cast<size_t>(tensor.mesh)];
  return std::all_of(tensor.pins.begin(), tensor.pins.end(), [&](const Pin& pin) {
    return std::binary_search(pin.coordinates.begin(), pin.coordinates.end(), mesh.coordinate(rank, pin.axis));
  });
}

tensor::LocalBuffer Collection::pieces(TensorId id, LogicalRank rank) const {
  const LogicalTensor& tensor = tensors[static_cast<size_t>(id.value)];
  if (!holds(tensor, rank)) return {};
  return tensor::pieces_of(tensor.layout, tensor.shape, meshes[static_cast<size_t>(tensor.mesh)].lookup(rank));
}

namespace {

absl::Status validate_shape_of_job(const Collection& collection) {
  for (const Mesh& mesh : collection.meshes) {
    if (mesh.size() != collection.ranks()) {
      return invalid(fmt::format("collection \"{}\": a mesh has {} ranks, the job {} devices", collection.name,
                                 mesh.size(), collection.ranks()));
    }
  }
  std::set<DeviceId> devices;
  for (const DeviceId device : collection.device_of_rank) {
    if (!device.valid() || !devices.insert(device).second) {
      return invalid(fmt::format("collection \"{}\": device {} holds two ranks", collection.name, device.value));
    }
  }
  std::set<std::string> names;
  for (const LogicalTensor& tensor : collection.tensors) {
    if (!names.insert(tensor.name).second) {
      return invalid(fmt::format("collection \"{}\": tensor \"{}\" appears twice", collection.name, tensor.name));
    }
    if (tensor.mesh < 0 || tensor.mesh >= static_cast<int>(collection.meshes.size())) {
      return invalid(fmt::format("tensor \"{}\": there is no mesh {}", tensor.name, tensor.mesh));
    }
  }
  return absl::OkStatus();
}

// The dimension along which the boxes begin at the most different places: a sweep over it meets the fewest neighbours.
size_t sweep_dimension(const std::vector<tensor::Box>& boxes, int rank) {
  size_t best = 0;
  size_t most = 0;
  for (size_t dim = 0; dim < static_cast<size_t>(rank); ++dim) {
    std::set<int64_t> begins;
    for (const tensor::Box& box : boxes) begins.insert(box.lo[dim]);
    if (begins.size() > most) best = dim;
    most = std::max(most, begins.size());
  }
  return best;
}

// Together the ranks' boxes cover the tensor, and two different boxes never overlap.
absl::Status validate_cover(const Collection& collection, TensorId id) {
  const LogicalTensor& tensor = collection.tensors[static_cast<size_t>(id.value)];
  std::set<tensor::Box> distinct;
  for (const RankPart& part : rank_parts(collection, id)) {
    for (const tensor::Piece& piece : part.buffer.pieces) distinct.insert(piece.box);
  }
  std::vector<tensor::Box> boxes(distinct.begin(), distinct.end());
  const size_t dim = sweep_dimension(boxes, tensor.shape.rank());
  std::stable_sort(boxes.begin(), boxes.end(), [&](const auto& a, const auto& b) { return a.lo[dim] < b.lo[dim]; });
  int64_t volume = 0;
  for (size_t i = 0; i < boxes.size(); ++i) {
    volume += boxes[i].volume();
    for (size_t j = i + 1; j < boxes.size() && boxes[j].lo[dim] < boxes[i].hi[dim]; ++j) {
      if (intersect(boxes[i], boxes[j])) {
        return invalid(
            fmt::format("tensor \"{}\": boxes {} and {} overlap", tensor.name, boxes[i].str(), boxes[j].str()));
      }
    }
  }
  if (volume != tensor.shape.elements()) {
    const std::vector<tensor::Box> gap = subtract(tensor::Box::whole(tensor.shape), boxes);
    return invalid(fmt::format("tensor \"{}\": no rank holds {}", tensor.name, gap.front().str()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status validate(const Collection& collection) {
  SCALAI_RETURN_IF_ERROR(validate_shape_of_job(collection));
  for (size_t i = 0; i < collection.tensors.size(); ++i) {
    SCALAI_RETURN_IF_ERROR(validate(collection, TensorId(static_cast<int64_t>(i))));
  }
  return absl::OkStatus();
}

absl::Status validate(const Collection& collection, TensorId id) {
  const LogicalTensor& tensor = collection.tensors[static_cast<size_t>(id.value)];
  SCALAI_CHECK(0 <= tensor.mesh && tensor.mesh < static_cast<int>(collection.meshes.size()), tensor.name);
  const Mesh& mesh = collection.meshes[static_cast<size_t>(tensor.mesh)];
  SCALAI_RETURN_IF_ERROR(tensor::validate(
      tensor.layout, tensor.shape, [&](const std::string& axis) { return mesh.axis_size(axis); }, tensor.name));
  return validate_cover(collection, id);
}

}  // namespace scalai::collection
