#pragma once
// For tests: one scenario run on the max-min solver, every plan checked, every command seen.

#include <functional>
#include <string>
#include <utility>

#include "ptc/run/control/run.h"
#include "ptc/run/control/testing/control_fixture.h"
#include "sim/sim_runtime.h"
#include "sim/simgrid_backend.h"

namespace scalai::sim::testing {

// Shows each command to `look` on its way to a runtime.
class WatchedRuntime : public control::Runtime {
 public:
  using Look = std::function<void(const control::Command&)>;
  WatchedRuntime(control::Runtime& inner, Look look) : inner_(inner), look_(std::move(look)) {}
  absl::Status perform(const control::Command& command) override {
    if (look_) look_(command);
    return inner_.perform(command);
  }
  absl::StatusOr<control::Event> next_event() override { return inner_.next_event(); }

 private:
  control::Runtime& inner_;
  Look look_;
};

inline control::RunReport simulate(const scenario::Scenario& scenario, const scenario::Strategy& strategy,
                                   const WatchedRuntime::Look& look = {}) {
  const change::Platform platform(scenario.cluster, change::LinkRates::kReached, strategy.costs.stores);
  absl::StatusOr<control::RunReport> report = absl::InternalError("did not run");
  const absl::Status status = with_backend(BackendKind::kMaxMin, platform.spec(), [&](change::NetworkBackend& backend) {
    control::Recorder recorder;
    SimRuntime runtime(scenario.cluster, platform, backend, recorder);
    WatchedRuntime watched(runtime, look);
    report = control::run(scenario, strategy, watched, {.check_plans = true});
    runtime.close();
    if (report.ok()) report->recorder = std::move(recorder);
  });
  SCALAI_CHECK(status.ok(), message_of(status));
  SCALAI_CHECK(report.ok(), message_of(report.status()));
  report->runtime = "sim";
  return *std::move(report);
}

}  // namespace scalai::sim::testing
