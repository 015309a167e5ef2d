#pragma once
// Collection: the whole state of a job at one epoch, as the paper's parallelizable tensor collection (T, σ, φ, α).
//
//   T  tensors        the logical tensors, with global names
//   σ  layouts        how each is cut over mesh axes          (ptc/tensor/layout.h)
//   φ  pins           which coordinates of which axes hold it (pipeline stage; one owner for the data cursor)
//   α  device_of_rank where each logical rank lives
//
// All of it is data; pieces() derives what a rank holds. Values, immutable after building, safe to share between threads.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/base/ids.h"
#include "ptc/collection/mesh.h"
#include "ptc/model/model.h"
#include "ptc/tensor/layout.h"

namespace scalai::collection {

// One constraint of φ: the tensor lives only where the rank's coordinate on `axis` is one of these (sorted).
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
  std::vector<Pin> pins;  // φ; axes not named: everywhere

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
  // What `rank` holds of a tensor; no pieces when φ puts it elsewhere.
  tensor::LocalBuffer pieces(TensorId tensor, LogicalRank rank) const;
  bool holds(const LogicalTensor& tensor, LogicalRank rank) const;  // φ only
  friend bool operator==(const Collection&, const Collection&) = default;
};

// Refuses a collection that does not mean one thing: meshes of different sizes, a device twice, duplicate tensor names,
// layouts that do not fit, and tensors whose pieces leave a gap or overlap inside one replica. Errors name tensor and box.
absl::Status validate(const Collection& collection);
// Of these, what concerns one tensor: its layout, and that its pieces cover it. CHECK: its mesh is there.
absl::Status validate(const Collection& collection, TensorId tensor);

// Who still holds what. Devices in `lost` hold nothing any more. `extra` are holders outside α: redundant copies in host
// memory. `storage` tells whether a checkpoint holds everything.
struct ExtraHolder {
  TensorId tensor;
  tensor::Box box;
  HostId host;  // in this host's memory
  friend bool operator==(const ExtraHolder&, const ExtraHolder&) = default;
};
struct Residency {
  std::set<DeviceId> lost;
  std::vector<ExtraHolder> extra;
  bool storage = false;
  friend bool operator==(const Residency&, const Residency&) = default;
};

}  // namespace scalai::collection
