#pragma once
// Files of torch.save, to be written: the pickle and the archive around tensors whose bytes come from elsewhere.
// torch.load reads them with weights_only=True. Values.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/safetensors/file_frame.h"

namespace scalai::store {

// A file of Megatron-LM (model_optim_rng.pt): a dict with "checkpoint_version" 3.0, "iteration", and dicts of tensors:
// "model.decoder.final_layernorm.weight" is "decoder.final_layernorm.weight" in the dict "model". Without tensors it is
// Megatron-Core's common.pt. InvalidArgument: a name that is given twice, or has no dict.
absl::StatusOr<FileFrame> megatron_frame(std::span<const TensorSpec> tensors, int64_t iteration);

// A file of torch.distributed.checkpoint (__0_0.distcp): each tensor a file of torch.save of its own, one after the
// other.
struct ChunkFrame {
  FileFrame frame;
  struct Place {
    int64_t begin = 0;
    int64_t bytes = 0;
  };
  std::vector<Place> places;  // by tensor, as given
  std::optional<Place> step;
  std::optional<Place> none;
};
struct ChunkExtras {
  std::optional<int64_t> step;  // of an optimizer: a tensor without dimensions, which torch's Adam keeps
  bool none = false;            // [None], as Megatron-Core keeps an object
};
ChunkFrame chunk_frame(std::span<const TensorSpec> tensors, const ChunkExtras& extras);

}  // namespace scalai::store
