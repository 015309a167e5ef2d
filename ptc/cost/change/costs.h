#pragma once
// Costs of a reconfiguration besides its transfers, and the phases of its time. Plain data and pure functions.

#include "ptc/cost/change/platform.h"
#include "ptc/cost/change/setup.h"
#include "ptc/plan/estimate.h"

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
  double resume = 0;    // communicators, loading of staged state, compilation
  double aborted = 0;   // attempts that a failure cut short
  double total() const { return detect + stop + plan + restart + prepare + transfer + verify + resume + aborted; }
};

// The cost parameters of a strategy. A rate of 0 takes no time; where a time is below 0 the stack says it.
struct Costs {
  const Stack* stack = &stacks().front();
  double detect_s = -1;              // failure → known
  double hang_s = -1;                // a process hangs → known and diagnosed
  double plan_s = 0;                 // modelled planning time
  double restart_s = 0;              // processes, containers, framework, model construction
  double allocate_bytes_per_s = 0;   // memory for new state, per device
  double verify_bytes_per_s = 0;     // received bytes, per device
  double communicator_s = -1;        // set-up of communicators
  double compile_s = 0;              // graphs for the new shapes: torch.compile, XLA, CUDA graphs
  double transfer_start_s = 0;       // α of each round that moves any bytes
  plan::MessageCosts messages = {};  // of each box and peer
  StoreShares stores = {};           // of hosts whose cluster does not say their rates
};

// Nine in ten published transfers of weights between layouts took so many times what strategy "reshard" says for links
// of hosts with GPUs (`scalai accuracy --table=transfers`; a test compares). That software takes longer for boxes and
// peers than our executor.
inline constexpr Published kPublishedTransfers = {.low = 0.94, .high = 9.8};

// From a failure to knowing it; `hangs`: of processes that are there but stand still, their diagnosis included.
double detect_s(const Costs& costs, bool hangs = false);
double restart_s(const Costs& costs, int ranks);
double communicator_s(const Costs& costs, const Groups& groups);

// Of a job that starts with nothing.
inline double start_seconds(const Costs& costs, const Groups& groups) {
  return restart_s(costs, groups.ranks) + communicator_s(costs, groups) + costs.compile_s;
}

// Time of every change, independent of its bytes: plan, restart, communicators, compilation.
inline double fixed_seconds(const Costs& costs, const Groups& groups) {
  return costs.plan_s + start_seconds(costs, groups);
}

}  // namespace scalai::change
