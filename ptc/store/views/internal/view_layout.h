#pragma once
// Which rank holds which state of a checkpoint under a layout.

#include "absl/status/statusor.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::store::internal {

// Under Megatron's names a layout that does not say etp has tp for it, as Megatron-Core's
// expert_tensor_parallel_size. Other names and models without experts keep 1. `etp_said` is afterwards whether the name
// of the layout is to say it. InvalidArgument: the ranks of a stage do not suffice.
absl::Status take_usual_etp(const KnownModel* known, const std::string& naming, collection::ParallelConfig& config,
                            bool& etp_said);

// The checkpoint's states under a layout by name, which needs the model. InvalidArgument: it is unknown, the layout
// does not fit it, or the checkpoint has state that the model does not.
absl::StatusOr<collection::Collection> collection_of(const Checkpoint& checkpoint,
                                                     const collection::ParallelConfig& config);
// The same states as a collection that was given (InvalidArgument: those that are not, a line each), in the
// checkpoint's dtypes.
absl::StatusOr<collection::Collection> collection_of(const Checkpoint& checkpoint,
                                                     const collection::Collection& collection);

// Makes the rows of every rank's part of the vocabulary a multiple of this.
void pad_vocabulary(collection::Collection& collection, int64_t multiple);

}  // namespace scalai::store::internal
