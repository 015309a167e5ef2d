#pragma once
// Costs of a reconfiguration besides its transfers, and the phases of its time. Plain data and pure functions.

namespace scalai::change {

// Seconds of a reconfiguration by phase. Phases follow one another. Their sum is the time from the request (or the
// failure) to the first step in the new configuration.
struct PhaseSeconds {
  double detect = 0;  // failure → known (failures only)
  double stop = 0;    // request → step boundary, plus staging of the state if the strategy stages
  double plan = 0;
  double restart = 0;   // processes, containers, framework
  double prepare = 0;   // memory for the new state
  double transfer = 0;  // movement of state: restores, the rounds of the plan, uploads
  double verify = 0;    // check of received bytes
  double resume = 0;    // communicators, and loading of staged state
  double aborted = 0;   // attempts that a failure cut short
  double total() const { return detect + stop + plan + restart + prepare + transfer + verify + resume + aborted; }
};

// The cost parameters of a strategy. A rate of 0 takes no time.
struct Costs {
  double detect_s = 0;              // failure → known
  double plan_s = 0;                // modelled planning time
  double restart_s = 0;             // processes, containers, framework, model construction
  double allocate_bytes_per_s = 0;  // memory for new state, per device
  double verify_bytes_per_s = 0;    // received bytes, per device
  double communicator_s = -1;       // set-up of communicators; < 0: the default of communicator_s()
  double transfer_start_s = 0;      // α of each round that moves any bytes
};

// Set-up time of communicators for `ranks` >= 1 ranks: costs.communicator_s if it is not negative, else 2·(log2(ranks)
// + 1) s. The default is the scaling part of ElasticFlow's published simulator.
double communicator_s(const Costs& costs, int ranks);

// Time of every change, independent of its bytes: plan, restart, communicators.
inline double fixed_seconds(const Costs& costs, int ranks) {
  return costs.plan_s + costs.restart_s + communicator_s(costs, ranks);
}

}  // namespace scalai::change
