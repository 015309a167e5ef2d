#pragma once
// Bytes of one layer's activations for one micro-batch on one rank, term by term as in memory.h. Pure functions; any
// thread may call them.

#include "ptc/cost/step/training.h"

namespace scalai::step::internal {

// Tokens of a micro-batch on a rank before sequence parallelism.
double tokens(const Workload& workload);
// What sequence parallelism divides by.
double divisor(const Workload& workload);
// Of a layer that is computed again as far as `recompute` says: what is kept of it. Where only some layers are computed
// again, of one of these.
double layer_bytes(const Workload& workload, const Recompute& recompute);

}  // namespace scalai::step::internal
