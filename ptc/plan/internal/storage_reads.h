#pragma once
// Reads from storage: how boxes that only storage has reach the devices that want them.
//
// Plans in place read from the nearest holder. They pass on what they read as they pass on any other state, so that
// each box is read once. More reads (StorageReads) are taken if the whole plan then takes less predicted time in one
// round (estimate.h), the rest of the plan included:
//
//   kOnce         storage  b            NICs in  b a host, out  b for all hosts but one
//   kEachHost     storage  b · hosts    NICs in  b a host
//   kEachDevice   storage  b · devices  NICs in  b a device; no GPU links
//
// A storage without a rate is read once: its time is unknown. Staged strategies, those bound to the first replica and
// those that read everything from storage (SourceRule::kStorage) have every device read for itself, as the systems they
// model do.

#include <vector>

#include "ptc/plan/internal/drafts.h"
#include "ptc/plan/internal/fan_out.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/planner.h"

namespace scalai::plan::internal {

// The ways that a plan may take, fewest reads first.
std::vector<StorageReads> storage_reads(const PlannerOptions& options, const cluster::Cluster& cluster);

// Keeps references to all that it is given. Use: add(), then emit() once all else is in `drafts`.
class StorageReading {
 public:
  StorageReading(const PlannerInput& input, const PlanDraft& plan, FanOut& fan_out, Drafts& drafts)
      : input_(input),
        plan_(plan),
        fan_out_(fan_out),
        drafts_(drafts),
        ways_(storage_reads(input.options, input.cluster)) {}

  // A box of each of these tensors; devices in rank order, not empty. The tensors outlive this object.
  void add(const tensor::Box& box, const std::vector<TensorId>& tensors, int32_t set,
           const std::vector<DeviceId>& devices);
  // Adds the way that takes least time to the drafts, and returns it.
  StorageReads emit();

 private:
  // A box with a choice: several devices want it.
  struct Unheld {
    tensor::Box box;
    const std::vector<TensorId>* tensors = nullptr;
    int32_t set = 0;
    std::vector<DeviceId> devices;
    DevicesByHost by_host;
  };
  using Found = std::vector<Instance>;
  Found read_all(StorageReads reads);
  void read(const Unheld& unheld, StorageReads reads, Found& found);
  int32_t read_directly(const std::vector<DeviceId>& devices);
  double least_seconds(StorageReads reads) const;
  Found fastest();

  const PlannerInput& input_;
  const PlanDraft& plan_;
  FanOut& fan_out_;
  Drafts& drafts_;
  const std::vector<StorageReads> ways_;
  StorageReads chosen_ = ways_.front();
  std::vector<Unheld> unheld_;
};

}  // namespace scalai::plan::internal
