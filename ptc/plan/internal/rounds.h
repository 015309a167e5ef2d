#pragma once
// Rounds: the order in which a plan's instances run, and what devices hold meanwhile.

#include <set>
#include <vector>

#include "ptc/plan/plan_draft.h"

namespace scalai::plan::internal {

// Whether the leg makes new state; what is kept is there already.
inline bool brings(const Leg& leg) { return leg.transfer_class != TransferClass::kKept; }
// Of the instance's box over its tensors, as new and as old state.
int64_t new_bytes(const PlanDraft& plan, const Instance& instance);
int64_t old_bytes(const PlanDraft& plan, const Instance& instance);

// Devices of both sides by number in a dense list.
class DeviceIndex {
 public:
  explicit DeviceIndex(const std::vector<DeviceMemory>& memory) {
    for (size_t i = 0; i < memory.size(); ++i) {
      const auto device = static_cast<size_t>(memory[i].device.value);
      if (device >= index_.size()) index_.resize(device + 1, 0);
      index_[device] = i;
    }
  }
  size_t operator[](DeviceId device) const { return index_[static_cast<size_t>(device.value)]; }

 private:
  std::vector<size_t> index_;
};

// Puts instances that read one of these devices first, before rounds are capped: they are about to go. What else moves
// between places gets a round after theirs.
void leave_first(PlanDraft& plan, const std::set<DeviceId>& leaving);

// Assigns rounds so that a device receives at most so much in one (at least one box). Splits instances by tensor.
void cap_rounds(PlanDraft& plan, int64_t round_bytes);

// Puts instances with kDerived legs into the last round; with a memory cap into one of their own, when all that is
// given back is gone. Their hop is beyond all others already.
void derive_last(PlanDraft& plan);

// Fills peak_extra of plan.memory by walking the rounds; returns the largest.
int64_t measure_memory(PlanDraft& plan);

// Instances in the plan's order.
void sort_instances(PlanDraft& plan);

}  // namespace scalai::plan::internal
