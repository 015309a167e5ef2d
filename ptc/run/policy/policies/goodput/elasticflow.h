#pragma once
// ElasticFlow (ASPLOS'23). A job with a deadline is admitted only if all admitted jobs still end in time. Each job gets
// the fewest GPUs that suffice (promises.h). The remaining GPUs go, a power of two at a time, to the job where they
// cost the least GPU time. A promise holds as long as no GPU fails and changes cost as much as the change model says.

#include <memory>

#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct ElasticFlowSettings {
  double slot_s = 60;     // plans hold GPUs until a multiple of it
  bool admission = true;  // refuse jobs that cannot meet their deadline; false: they run as jobs without a deadline
};

std::unique_ptr<Policy> make_elasticflow(const ElasticFlowSettings& settings);

}  // namespace scalai::policy
