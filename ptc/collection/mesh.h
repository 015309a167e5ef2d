#pragma once
// Mesh: named axes over a job's ranks, in an explicit order. A job has one rank list and one or more meshes over it
// (dense: tp·cp·dp·pp, expert: etp·ep·edp·pp); each tensor names its mesh.

#include <string>
#include <vector>

#include "ptc/base/ids.h"
#include "ptc/tensor/layout.h"

namespace scalai::collection {

struct MeshAxis {
  std::string name;
  int size = 1;
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

class Mesh {
 public:
  Mesh() = default;
  // `axes` fastest first: rank = c0 + size0·(c1 + size1·(…)). Names are unique and without "+", sizes >= 1 (CHECK).
  explicit Mesh(std::vector<MeshAxis> axes);

  int size() const;  // number of ranks
  // Of one axis, or of several as one ("cp+dp"): the product of their sizes, and the coordinate in it, the mesh's
  // fastest axis first, whatever the order in the name.
  int axis_size(const std::string& axis) const;                     // 1 for an axis the mesh does not have
  int coordinate(LogicalRank rank, const std::string& axis) const;  // 0 for such an axis
  tensor::AxisLookup lookup(LogicalRank rank) const;                // for tensor::pieces_of
  const std::vector<MeshAxis>& axes() const { return axes_; }
  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<MeshAxis> axes_;
};

}  // namespace scalai::collection
