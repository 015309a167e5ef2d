#pragma once
// The parallelizer: search for the best (tp, pp, dp, cp, ep, vpp, ZeRO, micro-batch, recomputation) on a number of
// GPUs. The search is exact over the space below: it prices every point, except points that a bound proves no better
// than the results and points too large for the memory. Pure functions of their arguments and of the callbacks'
// answers: the same choice on any machine. Any thread may call them; callbacks run on the calling thread, arguments are
// used during the call only.
//
// The space:
// - tp divides heads and feed-forward, and stays in a host unless pinned.
// - pp ≤ layers; stages are balanced if pp does not divide the layers.
// - vpp · pp divides the layers, and pp divides the micro-batches.
// - cp cuts a sequence into 2·cp equal parts: one early and one late part for each rank, so that a causal mask gives
//   all ranks equal work.
// - ep divides the experts; etp is 1 unless pinned.
// - dp is the rest, and dp · micro-batch divides the global batch (Training::whole_batches; else it is at most that),
//   or a batch so near to it that SearchSpace::batch_tolerance allows it.
// - 2BW takes at least pp micro-batches (Narayanan et al., ICML'21: with fewer, a version of the weights would still be
//   in use when the second next one is made).
// - With flash attention selective recomputation equals none and is not tried beside it. Convolutions are never
//   recomputed.
// - If a stage's state has one holder, ZeRO shards nothing: only the lowest ZeRO stage is tried.
// Ties of the score go to the shorter step, then to fewer GPUs, the smaller tp, pp, cp, ep, etp, vpp, ZeRO stage, the
// larger micro-batch, less recomputation, in this order.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/memory.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::step {

enum class Objective : uint8_t {
  kThroughput,  // shortest step
  // Least money for a step: GPUs · price · step, in dollars; in GPU-hours if a price is unknown.
  kCost,
  // Least energy for a step: GPUs · power · step, less while a GPU communicates or waits, in joules; in seconds of a
  // GPU at work if a power is unknown.
  kEnergy,
  // Most steps within the horizon, the reconfiguration included: horizon / steps, in seconds.
  kPayOff,
};
// "throughput", "cost", "energy", "pay-off"; static storage.
std::string_view name_of(Objective objective);
// Unknown name: InvalidArgument with the nearest name, if any is near, and all names.
absl::StatusOr<Objective> find_objective(std::string_view name);

// Axes that keep their size; absent = searched.
struct Pins {
  std::optional<int> tp, pp, dp, cp, ep, etp, vpp, zero, micro_batch;
  std::optional<Recompute> recompute;
  std::vector<std::string> order;  // empty = tp-cp-dp-pp
  std::vector<int> stages;         // empty = balanced
};
// A layout name as pins: each named field is pinned ("tp8,cp1" leaves pp, dp, ep free); stages= also pins pp and vpp.
// Errors: those of collection::parse_layout_fields.
absl::StatusOr<Pins> parse_pins(std::string_view layout);
// Pins all fields of a configuration.
Pins pins_of(const collection::ParallelConfig& config);

// Cost of the change to a candidate, from the planner behind SearchSpace::change.
struct Change {
  double reconfiguration_s = 0;
  int64_t bytes_between_hosts = 0, bytes_moved = 0;
};

struct Candidate {
  collection::ParallelConfig config;
  Training training;
  StepTime time;
  double memory_bytes = 0;       // of the worst stage, margin included
  double score = 0;              // of the objective, for as many samples as the global batch has; less is better
  std::optional<Change> change;  // pay-off only
  // Steps after which the shorter step has made up for the time of the change; absent = never, or the old configuration
  // cannot stay.
  std::optional<double> pay_off_steps;
};

// What searches leave free of a GPU's memory unless told otherwise: what other processes and a driver take, and what
// the estimate misses.
inline constexpr double kHeadroom = 0.04;

struct SearchSpace {
  int gpus = 0;          // upper limit
  bool all_gpus = true;  // exactly `gpus`; false: any number up to it …
  int least_gpus = 1;    // … from this one on
  cluster::Host host;    // kind of all hosts, filled one after the other; with `hardware`, the largest host
  // Batch, sequence, precision, schedule, flash attention; micro_batch and recompute are searched.
  Training base;
  std::vector<int> micro_batches = {1, 2, 4, 8, 16};
  std::vector<Recompute> recomputes = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  std::vector<int> zero_stages = {1};  // Megatron's distributed optimizer
  // The global batch may change by less than this share of it, 0 ≤ share < 1: a configuration whose dp · micro-batch (·
  // pp if it is interleaved) does not divide it takes the nearest multiple, of two the smaller. With whole_batches
  // only.
  double batch_tolerance = 0;
  Pins pins;
  Objective objective = Objective::kThroughput;
  int64_t memory_bytes = 0;  // of a GPU; 0 = that of host.gpu
  double headroom = 0;       // share of it that every candidate leaves free; below 0: it may need so much more
  int keep = 10;             // maximum number of candidates to return

  // Machine of a configuration; absent = uniform_hardware(host, config). For different or slow GPUs: hardware_of real
  // devices. Called once for each (tp, pp, dp, cp, ep, etp).
  std::function<Hardware(const collection::ParallelConfig&)> hardware;
  // With `hardware`: one host of each kind and price that it may use (kinds_of_hosts); empty = `host` alone. The bound
  // takes the best rate, price and power of them. Cost is in dollars if all have a price, energy in joules if all have
  // a power.
  std::vector<cluster::Host> host_kinds;

  bool explain_idle = false;  // fills SearchResult::idle, which may take a second search

  // Called every few thousand points with the number of examined points and of all points. Most searches end long
  // before the last point.
  std::function<void(int64_t looked_at, int64_t points)> progress;

  // Pay-off: steps within horizon_s, the change included. `change` is called in the order of step time, once for each
  // configuration, until no other can win; nullopt = not reachable. Absent: every change is free.
  double horizon_s = 3600;
  std::function<std::optional<Change>(const Candidate&)> change;
  double least_change_s = 0;  // lower bound of every change; `change` is not called for candidates that it rules out
  std::optional<double>
      stay_step_s;  // step of the old configuration on the GPUs that are left; absent = it cannot stay
};

// Explanation of a search without a fit: the candidate with the least excess memory, the largest term of its worst
// stage, and remedies. Each remedy was tried by computing the memory of all points that it adds (in very large spaces:
// of those with the most GPUs). So every remedy works, but the list may miss some.
struct NoFit {
  Candidate nearest;  // without a step time
  MemoryEstimate memory;
  std::string tightest_term;          // a memory_term, or "margin"
  std::vector<std::string> remedies;  // "full recomputation: tp8,pp2,dp4,zero1 needs 61.2 GB of 85.9 GB", …
};

struct SearchResult {
  std::vector<Candidate> best;  // by score; empty = nothing fits, or nothing that fits is reachable
  std::optional<NoFit> no_fit;  // set if points exist and none fits
  // With explain_idle: why the best leaves GPUs of the space idle, and a tolerance with which more of them would be
  // used, "64 of 120 GPUs: …"; or, with all_gpus, one with which the step is a tenth shorter. "" = neither.
  std::string idle;
  int64_t points = 0;        // points of the space that pass all divisions
  int64_t priced = 0;        // with a computed step time
  int64_t too_large = 0;     // over the memory
  int64_t bounded_away = 0;  // never priced: a bound proves them no better than the results
  int64_t unreachable = 0;   // `change` returned nullopt
};

// Problems of a space that show before the search (InvalidArgument, one a line, all of them): sizes of 0, and pins that
// the model, the batch, the sequence or the GPUs rule out.
absl::Status check_space(const ModelShape& model, const SearchSpace& space);

// The best candidates, at most space.keep. Errors (InvalidArgument): check_space; no configuration divides.
absl::StatusOr<SearchResult> search(const ModelShape& model, const SearchSpace& space);

// knows_price: all hosts of the space have a price. knows_power: all its GPUs have a power. Otherwise the objective
// counts GPU-hours, or seconds of a GPU at work.
bool knows_price(const SearchSpace& space);
bool knows_power(const SearchSpace& space);

// The value that the space's objective minimizes, for a configuration, its batch and its step with the price and power
// of `hardware`. Pay-off: the step time, without a change. A step of another batch than the space's counts for as many
// samples: 2 s for 1,020 samples are 2 · 1024 / 1020 s for 1,024.
double score_of(const SearchSpace& space, const Candidate& candidate, const Hardware& hardware);
// The step of a candidate likewise, for as many samples as the space's batch has.
double even_step_s(const SearchSpace& space, const Candidate& candidate);
// Of the space's objective, in words: "slower", "no better by cost".
std::string worse_by(Objective objective);

// reconfiguration_s / (old_step_s − new_step_s); nullopt unless the gain is positive and the quotient finite.
std::optional<double> pay_off_steps(double old_step_s, double new_step_s, double reconfiguration_s);

}  // namespace scalai::step
