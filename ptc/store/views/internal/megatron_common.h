#pragma once
// Where Megatron-Core's own record of a job (MegatronCommon) lies.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/store/safetensors/manifest.h"
#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {

// The object in newer folders of Megatron-Core.
inline constexpr const char* kCommonObject = "common_state/shard_0_1";

// Of a folder of Megatron-Core with this index; nothing where it has none.
absl::Status take_common(const Folder& place, const std::string& index, MegatronCommon& common);
// The same as of a folder with the optimizer's state by parameter, where a distributed optimizer in buckets keeps
// learning rates beside it. Notes what cannot be taken along.
absl::Status take_optimizers(const Folder& place, const std::string& index, CheckpointInfo& info);
// Of a folder that reshard wrote, whose small files these are.
absl::Status take_common(const Folder& folder, const std::vector<TextRecord>& texts, MegatronCommon& common);

}  // namespace scalai::store::internal
