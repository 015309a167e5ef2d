#pragma once
// Configurations that name their state: a collection file beside the scenario, in place of the job's model.

#include <string>
#include <vector>

#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::proto {
class ParallelChoice;
}  // namespace scalai::proto

namespace scalai::scenario::internal {

// Reads the collection of a configuration into `choice`. `before` are the job's configurations before it: all have the
// tensors of the first, and get them in its order. Problems go to the context's source.
void build_collection(const proto::ParallelChoice& message, const std::string& path,
                      const std::vector<ParallelChoice>& before, ParallelChoice& choice, Context& context);

}  // namespace scalai::scenario::internal
