#pragma once
// Steps (ptc/state/transform) over the tensors of a checkpoint: what a writer or a receiver reads box by box. Other
// states that steps name, adapters and averages, are opened here and stay open as long as the tensors that read them.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/transform/transform.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::store {

struct Transformed {
  std::vector<transform::Tensor> tensors;                 // after all steps; new ones right behind theirs
  std::vector<std::shared_ptr<const Checkpoint>> others;  // that steps read
  std::string digest;  // of the steps and of content of the others, the same on all machines
};
// The tensors of `base` after these steps. They read `base`, unless the reader says where the elements come from
// (transform::Origin). `how_others`: how other states are opened; without transforms and opener. Paths that do not
// begin with / are in `folder`; "": where this process is. Errors: those of transform::transform; of opening others,
// with their path.
absl::StatusOr<Transformed> transformed(const std::shared_ptr<const Checkpoint>& base,
                                        std::span<const transform::Step> steps, const OpenOptions& how_others,
                                        const std::string& folder);

}  // namespace scalai::store
