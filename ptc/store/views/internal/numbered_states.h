#pragma once
// State of a plain optimizer in Megatron-LM's own files (model_optim_rng.pt), where parameters have numbers:
//
//   optimizer.fp32_from_fp16_params.G.I    masters: of each group those of its parameters, in their order
//   optimizer.optimizer.state.N.exp_avg    moments: N counts over all groups
//   optimizer.K.…                          the same, of several optimizers
//
// Which parameters are in a group is not said (weights with decay, norms and biases without). So masters are found by
// their values, which round to the parameters; of parameters that are alike all are in one group, in the order of the
// modules.

#include "absl/status/status.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {

// Takes it along, for the parameters of the same files, which have their pieces. OK where there is none.
// FailedPrecondition: it cannot be told to which parameter it belongs, with the reason; `opened` is as before. Other
// errors are those of files.
absl::Status open_numbered_states(Opened& opened);

}  // namespace scalai::store::internal
