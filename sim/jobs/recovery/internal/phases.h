#pragma once
// A bounded list of phases: what changes nothing is left out, and every second one goes when it is full.

#include <cstddef>
#include <vector>

#include "sim/jobs/recovery/recovery.h"

namespace scalai::jobs::recovery::internal {

inline constexpr size_t kMaxPhases = 65'536;

inline void add_phase(std::vector<policy::RecoveryPhase>& phases, const policy::RecoveryPhase& phase) {
  if (!phases.empty()) {
    policy::RecoveryPhase& last = phases.back();
    if (last.live == phase.live && last.used == phase.used && last.samples_per_s == phase.samples_per_s) return;
    if (last.from_s == phase.from_s) return (void)(last = phase);
  }
  if (phases.size() >= kMaxPhases) {
    for (size_t i = 1; 2 * i < phases.size(); ++i) phases[i] = phases[2 * i];
    phases.resize(phases.size() / 2);
  }
  phases.push_back(phase);
}

}  // namespace scalai::jobs::recovery::internal
