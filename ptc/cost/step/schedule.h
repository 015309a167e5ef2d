#pragma once
// Pipeline schedules: the order of micro-batches on a stage, its idle share, its micro-batches in flight. With vpp > 1
// a stage holds vpp chunks of layers; chunk c of stage s is piece c·pp + s of the model. Pure functions; any thread may
// call them. CHECK in all of them: pp, vpp, micro_batches >= 1 and 0 <= stage < pp.

#include <vector>

#include "ptc/cost/step/training.h"

namespace scalai::step {

struct PipelineShape {
  Schedule schedule = Schedule::kOneFOneB;
  int pp = 1;
  int vpp = 1;
  int micro_batches = 1;
};

struct Slot {
  bool backward = false;
  int chunk = 0;
  int micro_batch = 0;
  friend bool operator==(const Slot&, const Slot&) = default;
};

// The slots of stage `stage` in a step, in order: each (chunk, micro-batch) once forward and once backward.
// GPipe: all forward, then all backward. 1F1B: min(pp − stage, m) forward, then backward and forward alternate.
// Interleaved: Megatron's order; groups of pp micro-batches pass each chunk; a rest below pp forms a smaller group.
// Zero bubble and DualPipe: the order of 1F1B, which is not theirs; their gradients of weights have slots of their own.
// 2BW: the order of 1F1B. Its steps follow one another without a flush: n steps have the order of n · m micro-batches.
std::vector<Slot> slots_of(const PipelineShape& shape, int stage);

// Maximum number of micro-batches in flight, that is with kept activations on a stage. A chunk counts 1/vpp:
// GPipe m; 1F1B and 2BW min(pp − stage, m); zb-1p min(pp, m) on every stage, as gradients of weights come late; zb-2p
// min(2·pp, m); DualPipe min(pp + 1, m); interleaved at stage 0 pp·(1 + (pp − 1)/(pp·vpp)), fewer on later stages.
// But for these three it equals the maximum of forward minus backward slots in slots_of, / vpp.
double in_flight(const PipelineShape& shape, int stage);

}  // namespace scalai::step
