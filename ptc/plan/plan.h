#pragma once
// Plan: the operations that turn one collection into another, with proof of their cost.
//
// An Operation reads a box of a logical tensor at `src` and makes it present at `dst`, as state of the new epoch. A
// plan for 16,384 GPUs has millions of operations, so it stores them in columns: an Instance is a pattern at work on
// one box of some tensors alike, in one round; a Pattern lists the legs, whatever the box. Each (instance, tensor, leg)
// is one operation. Programs of devices are made of the columns (lowering.h); operations are for people and tests.
//
// On hop 0, reading sees the old epoch. On hop k >= 1 a device passes on what it has received of the new epoch, by legs
// of an earlier (round, hop): fan-out. The hops of a round may run as a pipeline, chunk by chunk. Without a memory cap
// nothing of the old epoch is freed before the plan is committed; with one, a pattern's `frees` give back the box of
// the old epoch at the end of the instance's round.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ptc/base/ids.h"
#include "ptc/state/collection/collection.h"

namespace scalai::plan {

// The place of bytes: a device's memory, a host's memory (redundant copies, in-memory stores), or shared storage.
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

// How far bytes travel. Kept costs nothing: the old buffer is the new one. Derived: cast on the device from the new box
// of another tensor (bf16 parameters from their fp32 masters, TensorInfo::derived_from).
enum class TransferClass : uint8_t { kKept, kSameDevice, kDerived, kSameHost, kCrossHost, kFromStorage };
inline constexpr int kTransferClasses = 6;
std::string_view name_of(TransferClass transfer_class);  // "kept", "same_device", …

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

// Behind Plan: the rows of its columns.
struct TensorInfo;
struct ClassBytes;
struct Missing;
struct DeviceMemory;
struct Instance;
class Patterns;
struct PlanDraft;  // plan_draft.h

// A complete plan; nothing of it can change. make_plan(), parse_plan() and seal() return plans; the orders and ranges
// below are those of make_plan(). Copies are cheap and share the data. References and spans that a plan returns last as
// long as any of its copies; a plan that was moved from may only be assigned to or destroyed. Any thread may call.
class Plan {
 public:
  static constexpr int kSchemaVersion = 2;  // of the digest and of plan files

  // From what to what. Names and epochs are those of the collections; devices are α of either side, in rank order.
  const std::string& planner() const;  // the options that made it: "reshard", "tenplex", …
  const std::string& from() const;
  const std::string& to() const;
  int64_t from_epoch() const;
  int64_t to_epoch() const;
  const std::vector<DeviceId>& src_devices() const;
  const std::vector<DeviceId>& dst_devices() const;
  const std::vector<TensorInfo>& tensors() const;  // by TensorId
  const TensorInfo& tensor(TensorId id) const;     // `id` is in range

  // A plan with missing state is infeasible and must not be executed.
  bool feasible() const;
  const std::vector<Missing>& missing() const;  // sorted by (tensor, box)

  // All operations: in the order of the instances, or as a list sorted by (round, tensor, box, destination, source).
  void for_each_operation(absl::FunctionRef<void(const Operation&)> visit) const;
  std::vector<Operation> operations() const;
  int32_t rounds() const;  // at least 1

  // The proof, in bytes unless a comment says otherwise.
  const ClassBytes& bytes() const;        // of all operations
  const ClassBytes& lower_bound() const;  // given the placement; cross_host counts a box once a host
  int64_t lower_bound_any_placement_cross_host() const;
  int survives_host_losses() const;  // number of hosts that may be lost after the change without losing state
  int64_t memory_cap() const;        // of a device, as asked for; −1: none
  // Of new devices, and of old ones that are not lost; sorted by device.
  const std::vector<DeviceMemory>& memory() const;

  // The columns.
  const std::vector<Instance>& instances() const;  // sorted by (round, first tensor of the set, box, pattern)
  const std::vector<TensorId>& tensors_of(const Instance& instance) const;  // `instance` is one of this plan
  const std::vector<std::vector<TensorId>>& tensor_sets() const;
  const Patterns& patterns() const;

  // Of all of the above in a canonical encoding (hash.h): the same on any machine and for any serialisation. Plans with
  // equal digests are equal.
  const std::string& digest() const;
  const PlanDraft& draft() const;  // the fields; a copy of them can be changed, and sealed again

 private:
  friend Plan seal(PlanDraft draft);
  struct Sealed;
  explicit Plan(std::shared_ptr<const Sealed> sealed) : sealed_(std::move(sealed)) {}
  std::shared_ptr<const Sealed> sealed_;  // never null before a move
};

// --- Rows ------------------------------------------------------------------------------------------------------------

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

// What a device's memory holds over the plan.
struct DeviceMemory {
  DeviceId device;
  int64_t before = 0, after = 0;  // its part of the old and of the new collection
  // The most it holds at any time beyond the larger of the two. New buffers come into being with their round; the old
  // ones go when the plan is committed, or with `frees` at the end of a round.
  int64_t peak_extra = 0;
  friend bool operator==(const DeviceMemory&, const DeviceMemory&) = default;
};

// One hop of a box on its way.
struct Leg {
  TransferClass transfer_class = TransferClass::kKept;
  int32_t hop = 0;  // 0: reads the old epoch; k: passes on what earlier legs brought to src
  Location src;
  DeviceId dst;
  friend auto operator<=>(const Leg&, const Leg&) = default;
};

// A pattern at work on one box.
struct Instance {
  int32_t round = 0;  // kept boxes are in round 0
  int32_t pattern = 0;
  int32_t tensors = 0;  // index into Plan::tensor_sets()
  tensor::Box box;
  friend bool operator==(const Instance&, const Instance&) = default;
};

// Patterns by number, their legs and frees one after the other. Spans last until the next add().
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

}  // namespace scalai::plan
