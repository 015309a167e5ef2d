#pragma once
// Safetensors files of torch.distributed.checkpoint (HuggingFaceStorageWriter with save_distributed): each has a shard
// of many tensors, and says in its metadata where that lies in the whole.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/torch/dcp.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {

// nullopt: the first file says nothing of shards. InvalidArgument: all problems; files that say nothing, or not of all
// of their tensors; shards that differ in dtype or number of dimensions.
absl::StatusOr<std::optional<std::vector<DcpTensor>>> sharded_tensors(const Folder& folder,
                                                                      const std::vector<std::string>& files);

}  // namespace scalai::store::internal
