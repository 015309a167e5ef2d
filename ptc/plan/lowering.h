#pragma once
// Lowering: the programs of single devices from a plan. Each worker calls it for its own devices. A const Lowering is
// safe to share between threads.

#include <cstdint>
#include <vector>

#include "ptc/plan/plan.h"

namespace scalai::plan {

// kKeep: the old buffer stays. kCopy: copy on the device. kSend: to another device. kReceive: from another device or a
// host's memory. kLoad: from storage. kDerive: cast from the new box of TensorInfo::derived_from. kFree: frees the old
// epoch's box at the end of its round.
enum class StepKind : uint8_t { kKeep, kCopy, kSend, kReceive, kLoad, kDerive, kFree };
// "keep", "copy", … The view is valid for the life of the program.
std::string_view name_of(StepKind kind);

// One step of a device's program: all boxes between the device and one peer in one round and on one hop, as one
// message.
struct ProgramStep {
  StepKind kind = StepKind::kKeep;
  int32_t round = 0;
  int32_t hop = 0;  // k >= 1: a send waits until the device has received the boxes of earlier hops
  Location peer;    // kSend: destination; kReceive, kLoad: source; else the device itself
  // Indices into Plan::instances, in plan order; the tensors of each come in their order. Both ends of a message have
  // this order.
  std::vector<int32_t> instances;
  int64_t bytes = 0;
};

// The programs of all devices of a plan. Keeps a copy of the plan, which shares its data. Construction is one pass over
// the plan; program() then takes time n log n in the boxes of its own device.
class Lowering {
 public:
  explicit Lowering(Plan plan);
  // Sorted by (round, frees last, hop, kind, peer). Sends and receives of two devices match one to one. Empty for a
  // device outside the plan. The result is independent of this object.
  std::vector<ProgramStep> program(DeviceId device) const;

 private:
  struct Part {
    int32_t pattern = 0;
    StepKind kind = StepKind::kKeep;
    int32_t hop = 0;
    Location peer;
    TransferClass transfer_class = TransferClass::kKept;
  };
  Plan plan_;
  std::vector<std::vector<Part>> parts_;             // by device: its part in each pattern that names it
  std::vector<std::vector<int32_t>> instances_;      // by pattern
  std::vector<std::vector<int64_t>> element_bytes_;  // by tensor set and class: sum over the set's tensors
};

// The last hop of a round's instances; -1: it has none.
int32_t last_hop(const Plan& plan, int32_t round);

// The program of one device; for several, one Lowering is faster.
std::vector<ProgramStep> lower(const Plan& plan, DeviceId device);

}  // namespace scalai::plan
