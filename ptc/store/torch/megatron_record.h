#pragma once
// Megatron-Core's record of a job beside its tensors (common.pt, "common_state"): a file of torch.save with a dict, or
// a list of one, that goes along unread. Only what it says of the optimizer's state changes when that is laid out anew.

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/base/byte_source.h"

namespace scalai::store {

// The record of a folder whose optimizers' state is by parameter ("fully_reshardable"). optimizers: of each the object
// that a distributed optimizer in buckets keeps for itself, a file of torch.save with [{"param_groups": […]}]; these go
// into the record, where the others have theirs. All else stays byte by byte, and is not looked into. InvalidArgument:
// no such files; values in them that are not plain (numbers, texts, None, names, and lists, tuples and dicts of them).
absl::StatusOr<std::string> with_optimizers(const std::string& record, std::span<const std::string> optimizers);

// The record that a rank's file of Megatron-LM (model_optim_rng.pt) makes for such a folder: iteration, learning rates
// and their scheduler; without the arguments, which are no plain values. InvalidArgument: no such file, or it has no
// optimizer.
absl::StatusOr<std::string> record_of_rank(const ByteSource& rank_file);

}  // namespace scalai::store
