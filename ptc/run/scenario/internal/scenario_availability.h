#pragma once
// `availability` of a scenario whose jobs the control loop runs: hosts that come and go, as the script's fails, repairs
// and preemptions. Host k of a trace is host k of the cluster.

#include <vector>

#include "ptc/run/policy/fleet.h"
#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::scenario::internal {

// What the message says, read or made up, in order of time until the scenario's end; Scenario::absent too. Nothing
// where it is absent or has a problem.
std::vector<ScenarioEvent> build_host_events(Context& context, Scenario& scenario);

// Hosts that come are repaired, those that fail fail, a notice is a preemption, and what is taken without one fails.
// What changes nothing (a host that comes while it is up) is left out, and so are prices.
std::vector<ScenarioEvent> events_of(const policy::Availability& availability, const cluster::Cluster& cluster);
// Devices of hosts that are not up when the run starts.
std::vector<DeviceId> absent_in(const policy::Availability& availability, const cluster::Cluster& cluster);

// In a resolved scenario all that happens is among its events; what is not there at the start is
// availability { generator: "absent" set: "hosts=2 3" }.
void write_absent(const Scenario& scenario, proto::Scenario& out);

}  // namespace scalai::scenario::internal
