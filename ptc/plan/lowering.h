#pragma once
// Lowering: from a plan to the program of one device. A library function that each worker calls for itself.

#include <cstdint>
#include <vector>

#include "ptc/plan/plan.h"

namespace scalai::plan {

enum class StepKind : uint8_t { kKeep, kCopy, kSend, kReceive, kLoad };

// One step of a device's program: boxes that go between this device and one peer in one round and
// on one hop, as one message.
struct ProgramStep {
  StepKind kind = StepKind::kKeep;
  int32_t round = 0;
  int32_t hop = 0;                  // k >= 1: a send waits for what the device receives on earlier hops
  Location peer;                    // kSend: destination; kReceive, kLoad: source; else the device itself
  std::vector<int32_t> operations;  // indices into Plan::operations, in plan order: the message's order on both ends
  int64_t bytes = 0;
};

// Sorted by (round, hop, kind, peer). Sends and receives of two devices match one to one.
std::vector<ProgramStep> lower(const Plan& plan, DeviceId device);

}  // namespace scalai::plan
