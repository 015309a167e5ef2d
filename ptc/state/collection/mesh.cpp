#include "ptc/state/collection/mesh.h"

#include <set>

#include "ptc/base/status.h"

namespace scalai::collection {
namespace {

// Whether `axis` is one of `names`, which "+" separates.
bool names_axis(std::string_view names, std::string_view axis) {
  for (size_t plus = names.find('+'); plus != std::string_view::npos; plus = names.find('+')) {
    if (names.substr(0, plus) == axis) return true;
    names.remove_prefix(plus + 1);
  }
  return names == axis;
}

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {
  std::set<std::string> names;
  for (const MeshAxis& axis : axes_) {
    SCALAI_CHECK(axis.size >= 1, axis.name);
    SCALAI_CHECK(names.insert(axis.name).second && axis.name.find('+') == std::string::npos, axis.name);
  }
}

int Mesh::size() const {
  int product = 1;
  for (const MeshAxis& axis : axes_) product *= axis.size;
  return product;
}

int Mesh::axis_size(const std::string& name) const {
  int product = 1;
  for (const MeshAxis& axis : axes_) {
    if (names_axis(name, axis.name)) product *= axis.size;
  }
  return product;
}

int Mesh::coordinate(LogicalRank rank, const std::string& name) const {
  int rest = rank.value;
  int coordinate = 0;
  int below = 1;  // size of the named axes that are faster
  for (const MeshAxis& axis : axes_) {
    if (names_axis(name, axis.name)) {
      coordinate += below * (rest % axis.size);
      below *= axis.size;
    }
    rest /= axis.size;
  }
  return coordinate;
}

tensor::AxisLookup Mesh::lookup(LogicalRank rank) const {
  return [this, rank](const std::string& axis) {
    return tensor::AxisPosition{.size = axis_size(axis), .coordinate = coordinate(rank, axis)};
  };
}

}  // namespace scalai::collection
