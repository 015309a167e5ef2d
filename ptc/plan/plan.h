#pragma once
// Plan: what turns one collection into another, with proof of what it costs.
//
// A plan is stored as patterns and instances. A Pattern says who passes a box to whom, whatever the box; an Instance is
// a pattern at work on one box of some tensors alike, in one round. Spelled out, every instance, tensor and leg is one
// Operation: it reads a box of a logical tensor at `src` and makes it present at `dst`, as state of the new epoch. A
// plan for 16,384 GPUs is a few megabytes of instances and millions of operations; programs are made of the former
// (lowering.h), the latter are for people and tests.
//
// On hop 0, reading sees the old epoch. On hop k >= 1 a device passes on what it has received of the new epoch, by legs
// of an earlier (round, hop): fan-out. The hops of a round may run as a pipeline, chunk by chunk. Without a memory cap
// nothing of the old epoch is freed before the plan is committed; with one, a pattern's `frees` give back the box of
// the old epoch at the end of the instance's round.
//
// The digest covers our own canonical encoding (hash.h), so that it is the same on any machine and for any
// serialisation.

#include <cstdint>
#include <span>
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

// How far bytes travel. Keep costs nothing: the old buffer is the new one. Derived: cast on the device from the new box
// of another tensor (bf16 parameters from their fp32 masters, TensorInfo::derived_from).
enum class TransferClass : uint8_t { kKept, kSameDevice, kDerived, kSameHost, kCrossHost, kFromStorage };
inline constexpr int kTransferClasses = 6;
std::string_view name_of(TransferClass transfer_class);  // "kept", "same_device", …

// One hop of a box on its way.
struct Leg {
  TransferClass transfer_class = TransferClass::kKept;
  int32_t hop = 0;  // 0: reads the old epoch; k: passes on what earlier legs brought to src
  Location src;
  DeviceId dst;
  friend auto operator<=>(const Leg&, const Leg&) = default;
};

// Patterns by number, their legs and frees one after the other.
class Patterns {
 public:
  int32_t add(std::span<const Leg> legs, std::span<const DeviceId> frees);
  std::span<const Leg> legs(int32_t pattern) const { return part(legs_, leg_ends_, pattern); }
  std::span<const Leg> legs() const { return legs_; }  // of all
  // Holders of the old box that give it back after the round; none in a plan without a memory cap.
  std::span<const DeviceId> frees(int32_t pattern) const { return part(frees_, free_ends_, pattern); }
  int32_t size() const { return static_cast<int32_t>(leg_ends_.size()); }
  friend bool operator==(const Patterns&, const Patterns&) = default;

 private:
  template <class T>
  static std::span<const T> part(const std::vector<T>& list, const std::vector<size_t>& ends, int32_t pattern) {
    const auto at = static_cast<size_t>(pattern);
    const size_t begin = at == 0 ? 0 : ends[at - 1];
    return std::span<const T>(list).subspan(begin, ends[at] - begin);
  }
  std::vector<Leg> legs_;
  std::vector<DeviceId> frees_;
  std::vector<size_t> leg_ends_, free_ends_;
};

struct Instance {
  int32_t round = 0;  // kept boxes are in round 0
  int32_t pattern = 0;
  int32_t tensors = 0;  // index into Plan::tensor_sets
  tensor::Box box;
  friend bool operator==(const Instance&, const Instance&) = default;
};

struct Operation {
  TransferClass transfer_class = TransferClass::kKept;
  int32_t round = 0;
  int32_t hop = 0;
  TensorId tensor;
  tensor::Box box;
  Location src;
  DeviceId dst;
  int64_t bytes = 0;
  friend bool operator==(const Operation&, const Operation&) = default;
};

// Bytes by class; the names of DESIGN section 5 and of summary.json.
struct ClassBytes {
  int64_t kept = 0, same_device = 0, derived = 0, same_host = 0, cross_host = 0, from_storage = 0;
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
  tensor::DType dtype = tensor::DType::kF32;       // of the new collection
  tensor::DType from_dtype = tensor::DType::kF32;  // of the old one; where they differ, nothing can be kept
  tensor::Shape shape;
  TensorId derived_from;  // valid: what kDerived legs of this tensor read
  // Of one element: what arrives or is copied is new state. What travels between places is the narrower of the two, so
  // the sender converts where the new type is narrower, the receiver where it is wider. Storage has the old type.
  int64_t element_bytes(TransferClass transfer_class) const;
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

// What a device's memory holds over the plan.
struct DeviceMemory {
  DeviceId device;
  int64_t before = 0, after = 0;  // its part of the old and of the new collection
  // The most it holds at any time beyond the larger of the two. New buffers come into being with their round; the old
  // ones go when the plan is committed, or with `frees` at the end of a round.
  int64_t peak_extra = 0;
  friend bool operator==(const DeviceMemory&, const DeviceMemory&) = default;
};

// A plan in the making, or a copy to be changed. Whoever makes one sets `digest` last.
struct PlanDraft {
  static constexpr int kSchemaVersion = 2;
  std::string planner;   // "reshard", "tenplex", …: which options made it
  std::string from, to;  // collection names
  int64_t from_epoch = 0, to_epoch = 0;
  std::vector<TensorInfo> tensors;
  std::vector<DeviceId> src_devices, dst_devices;  // α on both sides, in rank order
  int32_t rounds = 1;
  int64_t memory_cap = -1;  // bytes a device, as asked for; −1 = none
  std::vector<std::vector<TensorId>> tensor_sets;
  Patterns patterns;
  std::vector<Instance> instances;  // sorted by (round, first tensor of the set, box, pattern)
  std::vector<Missing> missing;     // not empty: the plan is infeasible and must not be executed

  // The proof.
  ClassBytes bytes;
  ClassBytes lower_bound;  // given the placement; cross_host counts a box once a host
  int64_t lower_bound_any_placement_cross_host = 0;
  int survives_host_losses = 0;      // hosts that may be lost after the change without losing state
  std::vector<DeviceMemory> memory;  // of new devices and of old ones that are not lost, sorted by device
  std::string digest;

  bool feasible() const { return missing.empty(); }
  const TensorInfo& tensor(TensorId id) const { return tensors[static_cast<size_t>(id.value)]; }
  const std::vector<TensorId>& tensors_of(const Instance& instance) const {
    return tensor_sets[static_cast<size_t>(instance.tensors)];
  }
  // Calls visit(operation) for every operation, instance by instance.
  template <class Visit>
  void for_each_operation(Visit visit) const {
    for (const Instance& instance : instances) {
      for (const TensorId id : tensors_of(instance)) {
        for (const Leg& leg : patterns.legs(instance.pattern)) visit(operation_of(instance, id, leg));
      }
    }
  }
  // All of them, sorted by (round, tensor, box, destination, source).
  std::vector<Operation> operations() const;

 private:
  Operation operation_of(const Instance& instance, TensorId id, const Leg& leg) const;
};

// A plan whose digest was taken: it cannot be changed any more. make_plan() and parse_plan() return plans; a copy that
// is to be changed is a PlanDraft.
using Plan = const PlanDraft;

// Digest of everything above but itself.
std::string digest_of(const PlanDraft& plan);

}  // namespace scalai::plan
