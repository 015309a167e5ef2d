#pragma once
// A plan as waits and flows: what `scalai sim` does for the same change (sim/execution.h), with places instead of
// devices.

#include <set>

#include "ptc/plan/plan.h"
#include "sim/jobs/planned/change_plan.h"
#include "sim/jobs/planned/internal/abstract_change.h"

namespace scalai::jobs::internal {

struct StageInput {
  const plan::Plan& plan;
  const collection::Collection& from;
  const collection::Collection& to;
  const AbstractChange& change;
  const std::set<DeviceId>& lost;  // abstract
  ChangePlanner::Source source;
  const ChangeStrategy& strategy;
};

// The stages of ptc/cost/change/stages.h, waits without flows between them joined.
std::vector<ChangeStage> stages_of(const StageInput& input);

}  // namespace scalai::jobs::internal
