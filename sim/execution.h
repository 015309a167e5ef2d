#pragma once
// One Execute command as a list of stages the simulator goes through: waits, sets of flows, and marks.

#include <string>
#include <vector>

#include "ptc/control/events.h"
#include "sim/platform.h"

namespace scalai::sim {

struct FlowRequest {
  plan::Location src, dst;
  int64_t bytes = 0;
  plan::TransferClass transfer_class = plan::TransferClass::kSameHost;
  bool src_process = false, dst_process = false;  // see Platform::route
};

struct Stage {
  double control::PhaseSeconds::*phase = nullptr;  // whose time this is
  double wait_s = 0;                               // before the flows
  std::string what;                                // TransferRecord::phase
  int round = 0;
  std::vector<FlowRequest> flows;
  int mark = -1;  // RoundDone to report when the stage ends
};

// The phases of DESIGN section 3's reconfiguration, in order: stage → plan → restart → prepare → rounds → verify → load, resume.
std::vector<Stage> stages_of(const control::Execute& execute, const Platform& platform);

plan::TransferClass class_of(const Platform& platform, plan::Location src, plan::Location dst);

}  // namespace scalai::sim
