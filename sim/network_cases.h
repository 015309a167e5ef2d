#pragma once
// Test support: scripts of flows on small networks, replayed on any NetworkBackend, and an oracle that works them out
// on its own, in the plainest way, without any code of the back ends.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/change/network.h"

namespace scalai::sim {

struct FlowAction {
  enum Kind { kStart, kCancel, kBandwidth };
  double at_s = 0;
  Kind kind = kStart;
  int src = 0;  // kStart; flows of a script count up from 0
  int dst = 0;
  double bytes = 0;
  int flow = 0;  // kCancel; nothing happens when it has ended
  int link = 0;  // kBandwidth; 0 bytes/s takes it down
  double bytes_per_s = 0;
};

struct FlowScript {
  std::string name;
  change::NetworkSpec network;
  std::vector<FlowAction> actions;  // by time
};

struct FlowOutcome {
  double at_s = -1;  // -1: cancelled
  bool failed = false;
};

struct Replay {
  std::vector<FlowOutcome> outcomes;  // by flow, times from the start of the replay
  double worst_load = 0;              // highest rate / capacity of a link at any event
};

// Where a script's network lies in a larger one.
struct ScriptOffset {
  int first_link = 0;
  int first_endpoint = 0;
};

// Up to 20 links, 40 flows; staggered and simultaneous starts, equal and different sizes, changes of bandwidth in both
// directions, links down and up again, cancelled flows, shared and repeated links, endpoints without links.
FlowScript random_script(uint64_t seed);

// Small scripts whose outcome is computed by hand, with that outcome.
struct KnownScript {
  FlowScript script;
  std::vector<FlowOutcome> expected;
};
std::vector<KnownScript> known_scripts();

Replay replay(const FlowScript& script, change::NetworkBackend& backend, ScriptOffset offset = {});

// Textbook water-filling, all of it after every event.
std::vector<double> oracle_rates(const std::vector<double>& capacities, const std::vector<std::vector<int>>& routes);
std::vector<FlowOutcome> oracle_outcomes(const FlowScript& script);

// Fails the running test where two outcomes differ by more than a relative 1e-6 (and 1e-8 s).
void expect_same_outcomes(const std::vector<FlowOutcome>& actual, const std::vector<FlowOutcome>& expected);

}  // namespace scalai::sim
