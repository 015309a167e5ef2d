#include "ptc/collection/mesh.h"

#include <set>

#include "ptc/base/status.h"

namespace scalai::collection {

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  std::set<std::string> names;
  for (const MeshAxis& axis : axes_) {
    SCALAI_CHECK(axis.size >= 1, axis.name);
    SCALAI_CHECK(names.insert(axis.name).second, axis.name);
  }
}

int Mesh::size() const {
  int product = 1;
  for (const MeshAxis& axis : axes_) product *= axis.size;
  return product;
}

int Mesh::axis_size(const std::string& name) const {
  for (const MeshAxis& axis : axes_) {
    if (axis.name == name) return axis.size;
  }
  return 1;
}

int Mesh::coordinate(LogicalRank rank, const std::string& name) const {
  int rest = rank.value;
  for (const MeshAxis& axis : axes_) {
    if (axis.name == name) return rest % axis.size;
    rest /= axis.size;
  }
  return 0;
}

tensor::AxisLookup Mesh::lookup(LogicalRank rank) const {
  return [this, rank](const std::string& axis) {
    return tensor::AxisPosition{.size = axis_size(axis), .coordinate = coordinate(rank, axis)};
  };
}

}  // namespace scalai::collection
