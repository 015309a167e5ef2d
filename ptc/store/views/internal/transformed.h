#pragma once
// State that steps are applied to while it is read (ptc/state/transform): a file of whole tensors that is made of
// another checkpoint, box by box.
//
//   Checkpoint as it lies ─► transform::Tensor a state ─► steps ─► tensors that changed, as a file ─► another
//   Checkpoint

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {

// What the transformed checkpoint takes beside itself.
struct TransformedStates {
  std::vector<std::shared_ptr<const Checkpoint>> others;  // that steps read
  int64_t bytes = 0;                                      // of memory, theirs and the base's
  int64_t thread_bytes = 0;                               // of one read
  int64_t shared_bytes = 0;                               // of all reads together: chunks of OpenOptions::device
};

// Makes the states of `opened`, which is that of `base`, those after options.transforms. A config.json that says the
// dtype of the parameters says the new one. Errors: those of transform::transform; of opening what steps name, with its
// path.
absl::StatusOr<TransformedStates> transform_states(const std::shared_ptr<const Checkpoint>& base,
                                                   const OpenOptions& options, Opened& opened);

}  // namespace scalai::store::internal
