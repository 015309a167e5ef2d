#pragma once
// One tensor on one device: everything that a plan does there, against what the device holds before and needs after.
// All that has to hold of a plan is of this kind, but for what lies in host memory or storage, bytes and memory: an
// operation is an arrival at its destination and a read at its source.

#include <vector>

#include "ptc/plan/internal/interpreter_boxes.h"
#include "ptc/plan/internal/plan_facts.h"

namespace scalai::plan::internal {

// A leg of an instance at work on one tensor.
struct Use {
  int32_t instance = 0;
  const Leg* leg = nullptr;
};

struct DeviceCase {
  TensorId tensor;
  DeviceId device;
  BoxList held, needed;              // of the two collections, prepared; a lost device holds nothing
  std::vector<Use> arrivals;         // legs to the device
  std::vector<Use> reads;            // legs from it, but for kept and derived ones, which are arrivals only
  std::vector<int32_t> frees;        // instances that free their box on it
  std::vector<Use> master_arrivals;  // to the device, of the tensor that this one is derived from
  void clear();
};

// Whether a leg is a read of its source device besides an arrival.
bool is_read(const Leg& leg);

class DeviceCheck {
 public:
  DeviceCheck(const Plan& plan, const PlanFacts& facts, Problems& problems)
      : plan_(plan), facts_(facts), problems_(problems) {}

  // Arrivals lie inside what is needed, no two share elements, and together with `missing` they are all of it. Kept is
  // the same box before and after. On hop 0 a read finds the box in what is held and not given back in an earlier
  // round, on a later hop in what came before; a derived box finds its master so. Freed is what is held and not kept,
  // once; under a memory cap all of it.
  void check(const DeviceCase& one, const BoxList& missing);

 private:
  const tensor::Box& box_of(int32_t instance) const { return plan_.instances()[static_cast<size_t>(instance)].box; }
  int32_t round_of(int32_t instance) const { return plan_.instances()[static_cast<size_t>(instance)].round; }
  bool before(const Use& a, const Use& b) const;
  void wrong(const Use& use, std::string_view why) const;
  void check_arrivals(const BoxList& missing);
  void check_complete(const BoxList& missing);
  void check_derived();
  void check_reads();
  void check_frees();
  bool came_before(const Use& use, const BoxList& arrived, const std::vector<Use>& arrivals) const;

  const Plan& plan_;
  const PlanFacts& facts_;
  Problems& problems_;
  const DeviceCase* case_ = nullptr;
  BoxList arrived_, kept_, freed_, master_;
};

}  // namespace scalai::plan::internal
