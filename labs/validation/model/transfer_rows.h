#pragma once
// Rows of state that goes from one layout to another while its job lives, in seconds. Each is planned by ptc/plan and
// priced by ptc/cost/change, as `scalai parallelize` does; nothing here has a formula of its own.

#include <string>
#include <vector>

#include "labs/validation/model/results.h"
#include "labs/validation/model/training_run.h"
#include "ptc/state/model/model.h"

namespace scalai::step::validation {

// Kind "transfer": parameters alone. Columns: those of a host (training_run.h), `source`, `model`, and
//   precision         bf16, or fp8: a byte for an element of a layer's matrices, and a scale beside each of them
//   from, to          layouts; `onto` "other" hosts, which follow those of `from`, or the "same" GPUs
//   gather            the layout on the GPUs of `from` that they bring the state into first
//   send              the layout, on the first of these GPUs, of those that send it; `gather`, or `from`
//   through_host      1: what a GPU sends crosses its PCIe once by itself, to or from the memory of its host
//   relay             0: each GPU fetches all it lacks from GPUs that had it before
//   start_ms, box_us, peer_us   costs of each move besides its bytes (docs/scenarios.md, "Costs")
RowResult transfer_result(RowReader& row, const Models& models);
std::vector<std::string> transfer_columns();

// The tensors of a transformer, all layers alike. `scales`: a small tensor beside each matrix of a layer.
model::Model model_of(const ModelShape& shape, bool scales);

}  // namespace scalai::step::validation
