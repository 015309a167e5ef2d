#pragma once
// Bytes of one round on each link, and the seconds that they take by the model of estimate.h. Its one place: the
// estimate of a plan and the planner's choices count alike.

#include <cstdint>
#include <span>
#include <vector>

#include "ptc/cluster/cluster.h"
#include "ptc/plan/plan_draft.h"

namespace scalai::plan::internal {

class RoundLoad {
 public:
  // Keeps a reference to the cluster.
  explicit RoundLoad(const cluster::Cluster& cluster);
  // These legs for a box of some tensors of the plan.
  void add(const PlanDraft& plan, const std::vector<TensorId>& tensors, const tensor::Box& box,
           std::span<const Leg> legs);
  double seconds() const;

 private:
  // A tier whose uplinks are narrower than the NICs below; others are never the hottest.
  struct Uplinks {
    cluster::Tier tier;
    std::vector<double> rates;   // by switch; 0 = unlimited
    std::vector<int64_t> bytes;  // by switch; up, down
  };
  struct End {
    HostId host;  // invalid: storage, above the fabric
    int nic = 0;
  };

  void add(const Leg& leg, int64_t bytes);
  void add_fabric(End src, End dst, int64_t bytes);
  End end_of(DeviceId device) const;

  const cluster::Cluster& cluster_;
  std::vector<Uplinks> uplinks_;
  std::vector<int64_t> nic_, link_, pcie_, copy_;  // by host or device; up, down
  int64_t storage_ = 0, copied_ = 0, backbone_ = 0;
  int32_t hops_ = 0;
};

// plan::round_seconds() of a draft.
std::vector<double> round_seconds(const PlanDraft& plan, const cluster::Cluster& cluster);

}  // namespace scalai::plan::internal
