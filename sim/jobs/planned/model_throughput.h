#pragma once
// Throughput of jobs with a model: an iteration is one step of the best configuration (configurations.h). One thread.

#include <memory>

#include "ptc/sched/throughput.h"
#include "sim/jobs/planned/configurations.h"

namespace scalai::sched {

// `configurations` outlives it. rate() is 0 where no configuration fits; GPUs never share jobs.
std::unique_ptr<Throughput> make_model_throughput(const Configurations& configurations);

}  // namespace scalai::sched
