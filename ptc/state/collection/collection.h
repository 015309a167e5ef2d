#pragma once
// Collection: the whole state of a job at one epoch, as the parallelizable tensor collection (T, σ, φ, α) of the
// Tenplex paper.
//
//   T  tensors         the logical tensors, with global names
//   σ  layouts         the cuts of each tensor over mesh axes          (ptc/state/tensor/layout.h)
//   φ  pins            the coordinates of axes that hold a tensor (pipeline stage; one owner for the data cursor)
//   α  device_of_rank  the device of each logical rank
//
// All of it is data; pieces() derives the content of a rank. Plain values; a const Collection is safe to share between
// threads.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/base/ids.h"
#include "ptc/state/collection/mesh.h"
#include "ptc/state/model/model.h"
#include "ptc/state/tensor/layout.h"

namespace scalai::collection {

// One constraint of φ: only ranks with one of these coordinates (sorted) on `axis` hold the tensor.
struct Pin {
  std::string axis;
  std::vector<int> coordinates;
  friend bool operator==(const Pin&, const Pin&) = default;
};

struct LogicalTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  model::StateKind kind = model::StateKind::kParam;
  int mesh = 0;           // index into Collection::meshes
  tensor::Layout layout;  // σ
  std::vector<Pin> pins;  // φ; the coordinates of other axes do not matter

  int64_t bytes() const { return shape.elements() * tensor::size_of(dtype); }
  friend bool operator==(const LogicalTensor&, const LogicalTensor&) = default;
};

struct Collection {
  std::string name;  // e.g. the layout name
  int64_t epoch = 0;
  std::vector<Mesh> meshes;  // all over the same ranks
  std::vector<LogicalTensor> tensors;
  std::vector<DeviceId> device_of_rank;  // α

  int ranks() const { return static_cast<int>(device_of_rank.size()); }
  // The pieces of a tensor on `rank`, by value; none if φ excludes the rank. The collection is valid.
  tensor::LocalBuffer pieces(TensorId tensor, LogicalRank rank) const;
  bool holds(const LogicalTensor& tensor, LogicalRank rank) const;  // whether φ includes the rank
  friend bool operator==(const Collection&, const Collection&) = default;
};

// Checks a whole collection. InvalidArgument, with the first problem only: meshes whose size is not the number of
// devices, a device twice or negative, duplicate tensor names, unknown meshes, layouts that do not fit, and tensors
// whose pieces leave a gap or overlap without being equal. Messages name the tensor and the box.
absl::Status validate(const Collection& collection);
// The part of these checks for one tensor: its layout, and that its pieces cover it. CHECK: its mesh exists.
absl::Status validate(const Collection& collection, TensorId tensor);

// Surviving holders of a collection. Devices in `lost` hold nothing any more. `extra` are holders outside α: redundant
// copies in host memory. `storage`: a checkpoint in shared storage holds everything.
struct ExtraHolder {
  TensorId tensor;
  tensor::Box box;
  HostId host;  // the copy is in this host's memory
  friend bool operator==(const ExtraHolder&, const ExtraHolder&) = default;
};
struct Residency {
  std::set<DeviceId> lost;
  std::vector<ExtraHolder> extra;
  bool storage = false;
  friend bool operator==(const Residency&, const Residency&) = default;
};

}  // namespace scalai::collection
