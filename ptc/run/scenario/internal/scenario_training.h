#pragma once
// How a job trains: numbers, batch, pipeline schedule, what is recomputed; and, with `parallel: choose`, how its
// configurations are looked for.

#include <string>

#include "ptc/proto/source.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::proto {
class Job;
}  // namespace scalai::proto

namespace scalai::scenario::internal {

// Sets recipe and training of a job whose model is known, or not (`model_known`). `path` is the job's ("jobs[0]").
// `gpu`: kind of the cluster's first GPUs, "" if there is none.
void build_training(const proto::Job& message, const std::string& path, bool model_known, const std::string& gpu,
                    JobSpec& job, proto::Source& source);

// Empty when the job's configurations are listed, or there is a problem.
std::optional<ChoosePolicy> build_choose(const proto::Job& message, const std::string& path, proto::Source& source);

void write_training(const JobSpec& job, const proto::Job& given, proto::Job& out);

}  // namespace scalai::scenario::internal
