#pragma once
// A model with more heads of keys and values than it has: each is there several times, so that tensor parallelism above
// their number cuts whole heads. Queries stay, and so do the results of attention.

#include <cstdint>

#include "absl/status/status.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {

// Makes model, config.json and states those of `kv_heads` heads; their bytes are those that are there. Nothing where
// there are as many or more. InvalidArgument: the model is unknown, or its heads do not divide; there is state of an
// optimizer, of which copies are no state, and it is not to be dropped.
absl::Status replicate_heads(int64_t kv_heads, bool drop_optimizer, Opened& opened);

}  // namespace scalai::store::internal
