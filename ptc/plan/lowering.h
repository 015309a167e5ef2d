#pragma once
// Lowering: from a plan to the programs of devices. A library function that each worker calls for itself.

#include <cstdint>
#include <vector>

#include "ptc/plan/plan.h"

namespace scalai::plan {

// kFree gives the old epoch's box back at the end of its round; kDerive casts from the new box of derived_from.
enum class StepKind : uint8_t { kKeep, kCopy, kSend, kReceive, kLoad, kDerive, kFree };
std::string_view name_of(StepKind kind);  // "keep", "copy", …

// One step of a device's program: boxes that go between this device and one peer in one round and
// on one hop, as one message.
struct ProgramStep {
  StepKind kind = StepKind::kKeep;
  int32_t round = 0;
  int32_t hop = 0;                 // k >= 1: a send waits for what the device receives on earlier hops
  Location peer;                   // kSend: destination; kReceive, kLoad: source; else the device itself
  std::vector<int32_t> instances;  // indices into Plan::instances, in plan order; of each, its tensors in their order:
                                   // the message's order on both ends
  int64_t bytes = 0;
};

// The programs of all devices of a plan, which outlives it. Building it takes one pass over the plan; after that a
// program costs no more than its own length.
class Lowering {
 public:
  explicit Lowering(const Plan& plan);
  // Sorted by (round, frees last, hop, kind, peer). Sends and receives of two devices match one to one. Empty for a
  // device that is not in the plan.
  std::vector<ProgramStep> program(DeviceId device) const;

 private:
  struct Part {
    int32_t pattern = 0;
    StepKind kind = StepKind::kKeep;
    int32_t hop = 0;
    Location peer;
    TransferClass transfer_class = TransferClass::kKept;
  };
  const Plan& plan_;
  std::vector<std::vector<Part>> parts_;             // by device: its part in each pattern that names it
  std::vector<std::vector<int32_t>> instances_;      // by pattern
  std::vector<std::vector<int64_t>> element_bytes_;  // by tensor set and class: sum over the set's tensors
};

std::vector<ProgramStep> lower(const Plan& plan, DeviceId device);

}  // namespace scalai::plan
