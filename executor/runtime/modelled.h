#pragma once
// How long things take in scenario time when nobody else uses the links: what the executor's clock goes by.

#include <vector>

#include "ptc/control/events.h"
#include "ptc/plan/cluster.h"

namespace scalai::executor {

// Bulk flows, all at once: the busiest end at its rate. A device's end is PCIe; a host's memory is its NICs for other
// hosts; storage reads and writes. Ends without a rate take no time.
double bulk_seconds(const std::vector<control::BulkFlow>& flows, const plan::Cluster& cluster);

// One part of an execution, in order: whose time it is, how long it takes, and what the control loop is told after it.
struct ModelledStage {
  enum class What : uint8_t { kStage, kPlan, kRestart, kPrepare, kRound, kVerify, kResume };
  What what = What::kPlan;
  double control::PhaseSeconds::*phase = nullptr;
  double seconds = 0;
  int round = -1;  // kRound: of the plan, from 0
  int mark = -1;   // RoundDone to report after it
};
std::vector<ModelledStage> stages_of(const control::Execute& execute, const plan::Cluster& cluster);

}  // namespace scalai::executor
