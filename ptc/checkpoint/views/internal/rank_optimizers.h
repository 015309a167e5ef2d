#pragma once
// State of optimizers in Megatron-LM's own folders: of a plain one in the ranks' files (numbered_states.h), of a distributed one
// in mp_rank_…/distrib_optim.pt beside them, of each buffer and state a flat tensor with its buckets one after the other:
//
//   {0: {(torch.bfloat16, torch.float32): {"param": …, "exp_avg": …, "exp_avg_sq": …}}}, or a list of such, one for each of
//   several optimizers: None where the rank does not keep it

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/checkpoint/naming/arrange.h"
#include "ptc/checkpoint/views/internal/opened.h"
#include "ptc/checkpoint/views/internal/opened_folder.h"
#include "ptc/checkpoint/views/internal/torch_ranks.h"

namespace scalai::checkpoint::internal {

// Takes it along, for the parameters of `opened`, which are those of the ranks; notes say what cannot be, and what else of the
// `ignored` tensors is no state. Errors of files.
absl::Status open_rank_optimizers(const Folder& folder, const TorchRanks& ranks, const Naming& naming,
                                  std::vector<std::string> ignored, Opened& opened);

}  // namespace scalai::checkpoint::internal
