#pragma once
// What a reconfiguration costs besides its transfers, and the phases that its time is told in. Plain data.

#include <cstdint>

namespace scalai::change {

// Seconds of a reconfiguration by phase. Phases follow one another; their sum is the time from the request (or the
// failure) to the first step in the new configuration.
struct PhaseSeconds {
  double detect = 0;  // failure → known (failures only)
  double stop = 0;    // request → step boundary, plus staging the state where the strategy does that
  double plan = 0;
  double restart = 0;   // processes, containers, framework
  double prepare = 0;   // memory for the new state
  double transfer = 0;  // moving state: the plan's rounds
  double verify = 0;
  double resume = 0;   // communicators, loading staged state
  double aborted = 0;  // attempts that a failure cut short
  double total() const { return detect + stop + plan + restart + prepare + transfer + verify + resume + aborted; }
};

// The cost parameters of a strategy. Rates of 0 take no time.
struct Costs {
  double detect_s = 0;              // failure → known
  double plan_s = 0;                // modelled planning time
  double restart_s = 0;             // processes, containers, framework, model construction
  double allocate_bytes_per_s = 0;  // memory for new state, per device
  double verify_bytes_per_s = 0;    // received bytes, per device
  double communicator_s = -1;       // < 0: the default below
  double transfer_start_s = 0;      // α of each round that moves anything
};

// Set-up of communicators for `ranks` ranks: the given number, or 2·(log2(ranks) + 1) s, the scaling part of
// ElasticFlow's published simulator.
double communicator_s(const Costs& costs, int ranks);

// What every change costs, whatever it moves: plan, restart, communicators.
inline double fixed_seconds(const Costs& costs, int ranks) {
  return costs.plan_s + costs.restart_s + communicator_s(costs, ranks);
}

}  // namespace scalai::change
