#pragma once
// The parallelizer: which (tp, pp, dp, cp, ep, vpp, ZeRO, micro-batch, recomputation) on so many GPUs. Exact over the space
// below: every point is priced, except those that a bound proves worse than what is known or too large for the memory.
// A pure function of its arguments (of what the callbacks answer, too): the same choice on any machine.
//
// The space: tp divides heads and feed-forward and stays in a host unless pinned; pp ≤ layers, stages balanced where layers
// do not divide; vpp where it divides a stage's layers and pp the micro-batches; cp cuts a sequence into 2·cp parts alike
// (one early and one late for each rank, so that a causal mask leaves all of them as much to do); ep divides the experts,
// etp is 1 unless pinned; dp is the rest, and dp · micro-batch divides the global batch (Training::whole_batches; else it
// is at most that). 2BW takes at least pp micro-batches (Narayanan et al., ICML'21: fewer, and a version of the weights
// would still be in use when the one after next is made). With flash attention
// selective recomputation is none, and not tried beside it; convolutions are never recomputed. Where a stage's state has
// one holder, ZeRO has nothing to share out: the lowest stage alone is tried.
// Ties of the score go to the shorter step, then to fewer GPUs, the smaller tp, pp, cp, ep, etp, vpp, ZeRO stage, the
// larger micro-batch, less recomputation, in this order.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/parallel/hardware.h"
#include "ptc/parallel/memory.h"
#include "ptc/parallel/step_time.h"

namespace scalai::parallel {

enum class Objective : uint8_t {
  kThroughput,  // shortest step
  kCost,        // least money a step: GPUs · price · step; dollars (of an unknown price: GPU-hours)
  kEnergy,  // least energy a step: GPUs · power · step, less while a GPU communicates or waits; joules (of a GPU of
            // unknown power: seconds of a GPU at work)
  kPayOff,  // most steps within the horizon, the reconfiguration included: horizon / steps; seconds
};
std::string_view name_of(Objective objective);  // "throughput", "cost", "energy", "pay-off"
absl::StatusOr<Objective> find_objective(std::string_view name);

// Axes that keep their size; absent = searched.
struct Pins {
  std::optional<int> tp, pp, dp, cp, ep, etp, vpp, zero, micro_batch;
  std::optional<Recompute> recompute;
  std::vector<std::string> order;  // empty = tp-cp-dp-pp
  std::vector<int> stages;         // empty = balanced
};
// A layout name as pins: what it names is pinned ("tp8,cp1" leaves pp, dp, ep free).
absl::StatusOr<Pins> parse_pins(std::string_view layout);
// Everything that a configuration says is pinned.
Pins pins_of(const collection::ParallelConfig& config);

// What getting to a candidate costs, told by whoever can plan it.
struct Change {
  double reconfiguration_s = 0;
  int64_t bytes_between_hosts = 0, bytes_moved = 0;
};

struct Candidate {
  collection::ParallelConfig config;
  Training training;
  StepTime time;
  double memory_bytes = 0;       // of the worst stage
  double score = 0;              // of the objective; less is better
  std::optional<Change> change;  // pay-off
  // Steps after which being faster than staying has made up for the change; absent = never, or staying is impossible.
  std::optional<double> pay_off_steps;
};

struct SearchSpace {
  int gpus = 0;          // at most so many
  bool all_gpus = true;  // exactly so many; else any number up to gpus
  plan::Host host;       // kind of all hosts, filled one after the other; with `hardware`, of the largest host
  Training base;  // batch, sequence, precision, schedule, flash attention; micro_batch and recompute are searched
  std::vector<int> micro_batches = {1, 2, 4, 8, 16};
  std::vector<Recompute> recomputes = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  std::vector<int> zero_stages = {1};  // Megatron's distributed optimizer
  Pins pins;
  Objective objective = Objective::kThroughput;
  int64_t memory_bytes = 0;  // of a GPU; 0 = the kind's
  int keep = 10;             // best candidates to return

  // Where the ranks of a configuration run; absent = uniform_hardware(host, config). For GPUs that differ or are slow:
  // hardware_of the devices that are there. Asked once a configuration.
  std::function<Hardware(const collection::ParallelConfig&)> hardware;
  // With `hardware`: a host of each kind and price that it may speak of (kinds_of_hosts); empty = `host` alone. The bound
  // takes the best of them in everything. Cost is in dollars when all have a price, energy in joules when all have a power.
  std::vector<plan::Host> host_kinds;

  // Told now and then how many points were looked at; mostly far from all have to be.
  std::function<void(int64_t looked_at, int64_t points)> progress;

  // Pay-off: steps within horizon_s, the change included. `change` is asked in the order of step time, once a
  // configuration, until what is left cannot win; no answer = not reachable. Absent: every change is free.
  double horizon_s = 3600;
  std::function<std::optional<Change>(const Candidate&)> change;
  double least_change_s = 0;  // that no change undercuts: what it rules out is not asked about
  std::optional<double>
      stay_step_s;  // step of the old configuration on the GPUs that are left; absent = it cannot stay
};

// Why nothing fits: the candidate that lacks least, its worst stage's largest term, and what would make something fit. Each
// remedy has been tried: the memory of all points that it opens was computed (where they are very many, of those on most
// GPUs: what is offered does fit, though not everything that would fit may be offered).
struct NoFit {
  Candidate nearest;  // its time is not computed
  MemoryEstimate memory;
  std::string tightest_term;          // a memory_term, or "margin"
  std::vector<std::string> remedies;  // "full recomputation: tp8,pp2,dp4,zero1 needs 61.2 GB of 85.9 GB", …
};

struct SearchResult {
  std::vector<Candidate> best;  // by score; empty = nothing fits
  std::optional<NoFit> no_fit;
  int64_t points = 0;        // of the space that divide
  int64_t priced = 0;        // had their step time computed
  int64_t too_large = 0;     // did not fit the memory
  int64_t bounded_away = 0;  // never priced: a bound proves them no better than those found
  int64_t unreachable = 0;   // `change` had no answer
};

// What is wrong with a space before anything is tried (InvalidArgument): sizes of 0, and pins that the model, the batch, the
// sequence or the GPUs rule out. All of it, one a line.
absl::Status check_space(const ModelShape& model, const SearchSpace& space);

// Errors (InvalidArgument): check_space; no configuration divides.
absl::StatusOr<SearchResult> search(const ModelShape& model, const SearchSpace& space);

// Whether all hosts of a space have a price, all GPUs a power: else an objective counts hours, or seconds, of GPUs.
bool knows_price(const SearchSpace& space);
bool knows_power(const SearchSpace& space);

// What the space's objective minimises for a configuration on `gpus` GPUs of this hardware, whose price and power count
// (pay-off: without a change, the step).
double score_of(const SearchSpace& space, const StepTime& time, int gpus, const Hardware& hardware);

// change / (old step − new step), where that is positive and finite.
std::optional<double> pay_off_steps(double old_step_s, double new_step_s, double reconfiguration_s);

}  // namespace scalai::parallel
