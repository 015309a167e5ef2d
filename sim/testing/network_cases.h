#pragma once
// Test support: scripts of flows on small networks, their replay on any NetworkBackend, and an independent oracle that
// shares no code with the back ends. Values and free functions; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/cost/change/network.h"

namespace scalai::sim {

struct FlowAction {
  enum Kind { kStart, kCancel, kBandwidth };
  double at_s = 0;
  Kind kind = kStart;
  int src = 0;  // kStart; a script numbers its flows from 0
  int dst = 0;
  double bytes = 0;
  int flow = 0;  // kCancel; no effect if the flow has ended
  int link = 0;  // kBandwidth; 0 takes the link down
  double bytes_per_s = 0;
};

struct FlowScript {
  std::string name;
  change::NetworkSpec network;
  std::vector<FlowAction> actions;  // sorted by time
};

struct FlowOutcome {
  double at_s = -1;  // -1: cancelled
  bool failed = false;
};

struct Replay {
  std::vector<FlowOutcome> outcomes;  // indexed by flow; times count from the start of the replay
  double worst_load = 0;              // highest rate / capacity of any link at any event
};

// Position of a script's network inside a larger network.
struct ScriptOffset {
  int first_link = 0;
  int first_endpoint = 0;
};

// A script of up to 20 links and 40 flows: staggered and simultaneous starts, equal and different sizes, bandwidth
// changes in both directions, links down and up again, cancelled flows, shared and repeated links, endpoints without
// links.
FlowScript random_script(uint64_t seed);

// Small scripts with outcomes computed by hand.
struct KnownScript {
  FlowScript script;
  std::vector<FlowOutcome> expected;
};
std::vector<KnownScript> known_scripts();

// Runs the script on `backend`, from the backend's present time.
Replay replay(const FlowScript& script, change::NetworkBackend& backend, ScriptOffset offset = {});

// Progressive filling, recomputed after every event. Rates are bytes per second; a flow without links gets infinity.
std::vector<double> oracle_rates(const std::vector<double>& capacities, const std::vector<std::vector<int>>& routes);
std::vector<FlowOutcome> oracle_outcomes(const FlowScript& script);

// Fails the running test if two outcomes differ by more than a relative 1e-6 and 1e-8 s.
void expect_same_outcomes(const std::vector<FlowOutcome>& actual, const std::vector<FlowOutcome>& expected);

}  // namespace scalai::sim
