#pragma once
// ElasticFlow (ASPLOS'23): jobs with deadlines are admitted only if all that were admitted still end in time; each gets
// the least GPUs that do (promises.h), and what is left goes, a power of two at a time, where it costs the least GPU
// time. A promise holds as long as no GPU fails and changes cost what the change model says.

#include <memory>

#include "ptc/sched/policy.h"

namespace scalai::sched {

struct ElasticFlowSettings {
  double slot_s = 60;     // plans hold GPUs until a multiple of it
  bool admission = true;  // refuse jobs whose deadline cannot be met; off: they run as jobs without a deadline
};

std::unique_ptr<Policy> make_elasticflow(const ElasticFlowSettings& settings);

}  // namespace scalai::sched
