#pragma once
// What a job reads: so many samples, or those of an index file, in which order and batches.

#include <optional>
#include <string>

#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::proto {
class Dataset;
class Job;
}  // namespace scalai::proto

namespace scalai::scenario::internal {

// `path` is the field's ("jobs[0].dataset"); `seed` the scenario's. An index is opened only where the scenario does not
// say what is in it. Empty when there is a problem.
std::optional<DatasetSpec> build_dataset(const proto::Dataset& message, const std::string& path, int64_t global_batch,
                                         uint64_t seed, Context& context);

void write_dataset(const DatasetSpec& dataset, proto::Job& out);

}  // namespace scalai::scenario::internal
