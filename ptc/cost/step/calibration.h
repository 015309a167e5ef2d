#pragma once
// How far published runs were from the model's step times, by what is alike and by what was given: the answer to "how
// much may I trust this number". With flags the intervals are those of the steps that no constant was chosen with, else
// those of all steps, each source weighed by the root of its rows, and widened where sources are few
// (results/perfmodel, `scalai accuracy`); a test computes them anew from the tables. Pure functions; any thread may
// call them.

#include <string>
#include <string_view>

#include "ptc/cluster/cluster.h"
#include "ptc/cost/step/software.h"

namespace scalai::step {

struct StepAccuracy {
  std::string_view group;    // "dense A100 16-bit", "dense H100 16-bit", "dense H100 FP8", "dense Blackwell" …
  bool calibrated = false;   // constants of this kind of GPU were chosen with published runs
  int rows = 0;              // published steps that say so
  double low = 1, high = 1;  // nine in ten of them took `low` to `high` times what the model says
  Given given = Given::kFlags;
};

// Of a catalogue name ("a100-80g"), the format of its products, and whether the model has experts. Kinds that were not
// calibrated have the widest interval of all dense groups; that of models with experts is from all kinds.
StepAccuracy step_accuracy(std::string_view gpu, Math math, bool experts, Given given = Given::kFlags);
// The same of a kind as a cluster has it: one whose rates are not those of its name in the catalogue is not calibrated.
StepAccuracy step_accuracy(const cluster::GpuKind& gpu, Math math, bool experts, Given given = Given::kFlags);

// "nine in ten of 71 published steps (dense H100 16-bit) took 0.88 to 1.10 times as long", or
// "step times are not calibrated for v100-16g: it may take 0.88 to 1.56 times as long".
std::string text_of(const StepAccuracy& accuracy, std::string_view gpu);

}  // namespace scalai::step
