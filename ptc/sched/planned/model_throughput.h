#pragma once
// Throughput of jobs with a model: one iteration is one step of the best configuration (configurations.h).

#include <memory>

#include "ptc/sched/planned/configurations.h"
#include "ptc/sched/throughput.h"

namespace scalai::sched {

// `configurations` outlives it. rate() is 0 where no configuration fits; GPUs never share jobs.
std::unique_ptr<Throughput> make_model_throughput(const Configurations& configurations);

}  // namespace scalai::sched
