#pragma once
// State that no file holds (HeldState) as an opened checkpoint: one file a rank, made of the boxes that it is the first
// holder of, one after the other. Nothing is read before somebody reads.

#include "absl/status/statusor.h"
#include "ptc/store/views/checkpoint.h"
#include "ptc/store/views/internal/opened.h"

namespace scalai::store::internal {

absl::StatusOr<Opened> open_held(HeldState held);

}  // namespace scalai::store::internal
