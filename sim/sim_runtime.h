#pragma once
// The control loop's Runtime in virtual time: training is arithmetic, state moves as flows on a NetworkBackend, and
// failures come from the scenario. One thread; with SimGrid, the thread of its actor.

#include <memory>

#include "ptc/cost/change/network.h"
#include "ptc/cost/change/platform.h"
#include "ptc/run/control/runtime.h"

namespace scalai::sim {

class SimRuntime : public control::Runtime {
 public:
  // All arguments outlive the runtime. Fills recorder.links.
  SimRuntime(const cluster::Cluster& cluster, const change::Platform& platform, change::NetworkBackend& network,
             control::Recorder& recorder);
  ~SimRuntime() override;

  // Always OK.
  absl::Status perform(const control::Command& command) override;
  // FailedPrecondition: no event can happen any more, because jobs wait for devices that never come.
  absl::StatusOr<control::Event> next_event() override;
  // Ends the record: writes flows still under way as "aborted".
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalai::sim
