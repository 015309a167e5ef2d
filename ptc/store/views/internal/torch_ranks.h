#pragma once
// Megatron's own folders: mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt, a file a rank of tp, pp and ep, without copies of
// dp.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {

struct TorchRanks {
  std::vector<std::string> files;  // in the order of the ranks, relative to the folder
  std::string layout;              // "tp2,pp2"
  int64_t iteration = -1;          // -1: not said
  friend bool operator==(const TorchRanks&, const TorchRanks&) = default;
};

// "iter_0000100/" or "release/": the folder of the newest iteration below this one, as
// latest_checkpointed_iteration.txt says; "" where it is not there. InvalidArgument: it says something else.
absl::StatusOr<std::string> newest_iteration(const Folder& folder);

// The number in the last part of a path, "dist/iter_0000100"; -1: it has none.
int64_t iteration_of(const std::string& path);

// nullopt: the folder has none, nor a newest iteration (latest_checkpointed_iteration.txt) that has. InvalidArgument:
// ranks are missing, with their names; several files of one rank.
absl::StatusOr<std::optional<TorchRanks>> torch_ranks(const Folder& folder);

// ---- Writing ----

// step: -1 is a release, Megatron's word for what comes from elsewhere.
std::string newest_text(int64_t step);
std::string iteration_folder(int64_t step);  // "iter_0000100/"

// The layout's ranks that have a file of their own: without copies of dp and cp.
collection::ParallelConfig without_copies(collection::ParallelConfig config);
// Of such a layout: "mp_rank_01_000/model_optim_rng.pt".
std::string torch_rank_file(const collection::ParallelConfig& config, int rank);
// Whether a name begins with that of a virtual stage: "model1.decoder…".
bool is_of_chunk(std::string_view name);

}  // namespace scalai::store::internal
