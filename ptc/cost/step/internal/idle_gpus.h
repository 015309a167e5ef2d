#pragma once
// Why the best configuration of a search leaves GPUs idle, or is slower than with another batch.

#include <string>

#include "ptc/cost/step/search.h"

namespace scalai::step::internal {

// "" = it uses all GPUs of the space. Where a larger configuration needs another batch, that one is named: the best
// within a twentieth of the batch. If all GPUs have to be used, such a batch is named where it saves a tenth of the
// step.
std::string why_idle(const ModelShape& model, const SearchSpace& space, const Candidate& best);

}  // namespace scalai::step::internal
