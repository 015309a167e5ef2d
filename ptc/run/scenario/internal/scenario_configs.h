#pragma once
// One parallel configuration of a job: its layout name, and whether the model can be cut that way.

#include <optional>
#include <string>

#include "ptc/proto/source.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::proto {
class ParallelChoice;
}  // namespace scalai::proto

namespace scalai::scenario::internal {

using proto::Note;
using proto::Source;

// `job` holds model and batch, or is null when the model is unknown: then only the layout itself is checked.
// Empty when there is a problem.
std::optional<ParallelChoice> build_config(const proto::ParallelChoice& message, const std::string& path,
                                           const std::string& job_path, const JobSpec* job, Source& source);

// Reports, at the layout at `path`, the worst stage and its largest term when training takes more than a GPU's memory.
void check_training_memory(const step::Workload& workload, int64_t memory_bytes, const std::string& path, Note note,
                           Source& source);

}  // namespace scalai::scenario::internal
