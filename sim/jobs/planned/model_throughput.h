#pragma once
// Throughput of jobs with a model: an iteration is one step of the best configuration (configurations.h). One thread.

#include <memory>

#include "ptc/run/policy/throughput.h"
#include "sim/jobs/planned/configurations.h"

namespace scalai::jobs {

// `configurations` outlives it. rate() is 0 where no configuration fits; GPUs never share jobs.
std::unique_ptr<policy::Throughput> make_model_throughput(const Configurations& configurations);

}  // namespace scalai::jobs
