#pragma once
// Megatron's own folders: mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt, a file a rank of tp, pp and ep, without copies of dp.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/checkpoint/views/internal/opened_folder.h"

namespace scalai::checkpoint::internal {

struct TorchRanks {
  std::vector<std::string> files;  // in the order of the ranks, relative to the folder
  std::string layout;              // "tp2,pp2"
  int64_t iteration = -1;          // -1: not said
  friend bool operator==(const TorchRanks&, const TorchRanks&) = default;
};

// "iter_0000100/" or "release/": the folder of the newest iteration below this one, as latest_checkpointed_iteration.txt
// says; "" where it is not there. InvalidArgument: it says something else.
absl::StatusOr<std::string> newest_iteration(const Folder& folder);

// nullopt: the folder has none, nor a newest iteration (latest_checkpointed_iteration.txt) that has. InvalidArgument: ranks
// are missing, with their names; several files of one rank.
absl::StatusOr<std::optional<TorchRanks>> torch_ranks(const Folder& folder);

}  // namespace scalai::checkpoint::internal
