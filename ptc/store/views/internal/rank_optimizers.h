#pragma once
// State of optimizers in Megatron-LM's own folders: of a plain one in the ranks' files (numbered_states.h), of a
// distributed one in mp_rank_…/distrib_optim.pt beside them, of each buffer and state a flat tensor with its buckets
// one after the other:
//
//   {0: {(torch.bfloat16, torch.float32): {"param": …, "exp_avg": …, "exp_avg_sq": …}}}, or a list of such, one for
//   each of several optimizers: None where the rank does not keep it

#include "absl/status/status.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/views/internal/left_out.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/opened_folder.h"
#include "ptc/store/views/internal/torch_ranks.h"

namespace scalai::store::internal {

// Takes it along, for the parameters of `opened`, which are those of the ranks. left: of the ranks' files what is
// neither a parameter nor known to be no trained state; what is not found in it either is left out as by leave_out().
// Errors of files.
absl::Status open_rank_optimizers(const Folder& folder, const TorchRanks& ranks, const Naming& naming, LeftOut left,
                                  Opened& opened);

}  // namespace scalai::store::internal
