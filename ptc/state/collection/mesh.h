#pragma once
// Mesh: named axes over the ranks of a job, in an explicit order. A job has one rank list and one or more meshes over
// it (dense: tp·cp·dp·pp, expert: etp·ep·edp·pp); each tensor names its mesh. Plain values; a const Mesh is safe to
// share between threads.

#include <string>
#include <vector>

#include "ptc/base/ids.h"
#include "ptc/state/tensor/layout.h"

namespace scalai::collection {

struct MeshAxis {
  std::string name;
  int size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

class Mesh {
 public:
  Mesh() = default;
  // `axes` are fastest first: rank = c0 + size0·(c1 + size1·(…)). CHECK: unique names without "+", sizes >= 1.
  explicit Mesh(std::vector<MeshAxis> axes);

  int size() const;  // number of ranks
  // Size, and coordinate of a rank, of one axis or of several as one ("cp+dp"). Several: the product of their sizes,
  // and the coordinate in it with the fastest axis of the mesh first; the order in the name does not matter.
  int axis_size(const std::string& axis) const;                     // 1 for an axis that the mesh does not have
  int coordinate(LogicalRank rank, const std::string& axis) const;  // 0 for such an axis
  // For tensor::pieces_of. The result refers to this mesh, which outlives it and stays in place.
  tensor::AxisLookup lookup(LogicalRank rank) const;
  // Fastest first. The reference lives as long as the mesh.
  const std::vector<MeshAxis>& axes() const { return axes_; }
  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<MeshAxis> axes_;
};

}  // namespace scalai::collection
