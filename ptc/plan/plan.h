#pragma once
// Plan: the operations that turn one collection into another, with proof of what they cost.
//
// A plan is one list of Operations over Locations, sorted by (round, tensor, box, destination). An operation reads a box
// of a logical tensor at `src` and makes it present at `dst` (state of the new epoch). On hop 0, reading sees the old
// epoch; nothing of it is freed before the plan is committed. On hop k >= 1 a device passes on what it has received of the
// new epoch, by operations of an earlier (round, hop): fan-out. The hops of a round may run as a pipeline, chunk by chunk.
//
// The digest covers our own canonical encoding (hash.h), so that it is the same on any machine and for any serialisation.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/base/ids.h"
#include "ptc/collection/collection.h"

namespace scalai::plan {

// Where bytes lie: a device's memory, a host's memory (redundant copies, in-memory stores), or shared storage.
struct Location {
  enum class Kind : int8_t { kDevice, kHostMemory, kStorage };
  Kind kind = Kind::kStorage;
  int32_t index = 0;  // device or host; 0 for storage
  static Location device(DeviceId id) { return {Kind::kDevice, id.value}; }
  static Location host_memory(HostId id) { return {Kind::kHostMemory, id.value}; }
  static Location storage() { return {}; }
  friend auto operator<=>(const Location&, const Location&) = default;
  std::string str() const;  // "g3", "h1.mem", "storage"
};

// How far an operation's bytes travel. Keep costs nothing: the old buffer is the new one.
enum class TransferClass : uint8_t { kKept, kSameDevice, kSameHost, kCrossHost, kFromStorage };
std::string_view name_of(TransferClass transfer_class);  // "kept", "same_device", …

struct Operation {
  TransferClass transfer_class = TransferClass::kKept;
  int32_t round = 0;  // kept operations are in round 0
  int32_t hop = 0;    // 0: reads the old epoch; k: passes on what earlier operations brought to src
  TensorId tensor;
  tensor::Box box;
  Location src;
  DeviceId dst;
  int64_t bytes = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

// Bytes by class; the names of DESIGN section 5 and of summary.json.
struct ClassBytes {
  int64_t kept = 0, same_device = 0, same_host = 0, cross_host = 0, from_storage = 0;
  int64_t& of(TransferClass transfer_class);
  int64_t moved() const { return same_host + cross_host; }  // over a link between devices
  friend bool operator==(const ClassBytes&, const ClassBytes&) = default;
};

// State that no surviving holder has (and no storage was offered for).
struct Missing {
  TensorId tensor;
  tensor::Box box;
  friend bool operator==(const Missing&, const Missing&) = default;
};

struct TensorInfo {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

struct Plan {
  static constexpr int kSchemaVersion = 1;
  std::string planner;   // "reshard", "tenplex", …: which options made it
  std::string from, to;  // collection names
  int64_t from_epoch = 0, to_epoch = 0;
  std::vector<TensorInfo> tensors;
  std::vector<DeviceId> src_devices, dst_devices;  // α on both sides, in rank order
  int32_t rounds = 1;
  std::vector<Operation> operations;
  std::vector<Missing> missing;  // not empty: the plan is infeasible and must not be executed

  // The proof.
  ClassBytes bytes;
  ClassBytes lower_bound;  // given the placement; cross_host counts a box once a host
  int64_t lower_bound_any_placement_cross_host = 0;
  int survives_host_losses = 0;  // hosts that may be lost after the change without losing state
  std::string digest;

  bool feasible() const { return missing.empty(); }
};

// Digest of everything above but itself.
std::string digest_of(const Plan& plan);

}  // namespace scalai::plan
