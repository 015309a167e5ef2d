#pragma once
// Pipeline schedules: in which order a stage works on micro-batches, how long it idles, how much it keeps in flight.
// With vpp > 1 a stage holds vpp chunks of layers, chunk c of stage s being the (c·pp + s)-th piece of the model.

#include <vector>

#include "ptc/parallel/training.h"

namespace scalai::parallel {

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

// What stage `stage` does in a step, in order: each (chunk, micro-batch) once forward and once backward.
// GPipe: all forward, then all backward. 1F1B: min(pp − stage, m) forward first, then alternately. Interleaved: Megatron's
// order, micro-batches in groups of pp through each chunk (a rest that is not pp goes in a last, smaller group).
// 2BW: 1F1B's order; its steps follow one another without a flush, n of them in the order of n · m micro-batches.
std::vector<Slot> slots_of(const PipelineShape& shape, int stage);

// Idle time of a stage in a step over its working time, all stages alike, no communication:
// (pp − 1)/m for GPipe and 1F1B, (pp − 1)/(m·vpp) interleaved (Narayanan et al., SC'21, 2.2; pp divides m), 0 for 2BW.
double bubble_fraction(const PipelineShape& shape);

// The most micro-batches of which a stage keeps activations at once, in whole stages' worth (a chunk counts 1/vpp):
// GPipe m; 1F1B and 2BW min(pp − stage, m); interleaved at stage 0 pp·(1 + (pp − 1)/(pp·vpp)), fewer on later ones.
// Equals the largest number of slots in flight in slots_of.
double in_flight(const PipelineShape& shape, int stage);

}  // namespace scalai::parallel
