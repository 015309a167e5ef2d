#pragma once
// The control loop's Runtime in virtual time: training is arithmetic, state moves as flows on a NetworkBackend, failures
// come from the scenario. One thread; with SimGrid, inside its actor.

#include <memory>

#include "ptc/change/network.h"
#include "ptc/change/platform.h"
#include "ptc/control/runtime.h"

namespace scalai::sim {

class SimRuntime : public control::Runtime {
 public:
  // All outlive the runtime. Fills recorder.links at once.
  SimRuntime(const plan::Cluster& cluster, const change::Platform& platform, change::NetworkBackend& network,
             control::Recorder& recorder);
  ~SimRuntime() override;

  absl::Status perform(const control::Command& command) override;
  absl::StatusOr<control::Event> next_event() override;
  // Ends the record: flows still under way are written as "aborted".
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalai::sim
