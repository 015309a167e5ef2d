#pragma once
// Whether state leaves devices before they are taken: flows played on the links as they are now, with nothing else on
// them. What they share with other traffic takes longer, so who plans with these times leaves a margin. One thread.

#include <memory>
#include <set>
#include <span>
#include <vector>

#include "ptc/cost/change/maxmin.h"
#include "ptc/cost/change/platform.h"
#include "ptc/cost/change/stages.h"
#include "ptc/run/control/internal/condition.h"

namespace scalai::control {

class Departure {
 public:
  // The condition outlives this.
  Departure(const Condition& condition, const change::StoreShares& stores) : condition_(condition), stores_(stores) {}

  // Seconds from the beginning of a change until it reads nothing more of these devices, nor of the memory of hosts
  // that go with them: to the next mark after the last stage that does. 0: no stage does. Infinity: a link is down.
  double seconds(const std::vector<change::Stage>& stages, const std::set<DeviceId>& leaving) const;
  // Seconds of bulk flows that begin together.
  double seconds(std::span<const change::BulkFlow> flows) const;
  // Of all NICs of a host together.
  struct HostRates {
    double out_bytes_per_s = 0, in_bytes_per_s = 0;
  };
  HostRates rates_of(HostId host) const;

 private:
  double play(std::span<const change::FlowRequest> flows) const;
  const change::Platform& platform() const;

  const Condition& condition_;
  const change::StoreShares stores_;
  mutable std::unique_ptr<const change::Platform> platform_;  // made when first asked for
};

}  // namespace scalai::control
