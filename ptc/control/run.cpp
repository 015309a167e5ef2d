#include "ptc/control/run.h"

#include "ptc/base/status.h"

namespace scalai::control {

absl::StatusOr<RunReport> run(const Scenario& scenario, const Strategy& strategy, Runtime& runtime,
                              const RunOptions& options) {
  const parallel::AnalyticStepTime step_time;
  Control control(scenario, strategy, step_time, options.check_plans);
  Event event{.at_s = 0, .body = Started{}};
  while (true) {
    for (const Command& command : control.step(event)) {
      if (std::holds_alternative<Stop>(command)) return control.report(event.at_s);
      SCALAI_RETURN_IF_ERROR(runtime.perform(command));
    }
    if (options.progress) options.progress(event.at_s);
    absl::StatusOr<Event> next = runtime.next_event();
    if (!next.ok() && next.status().code() == absl::StatusCode::kFailedPrecondition) {
      return control.report(event.at_s);  // jobs wait for devices that never come
    }
    SCALAI_RETURN_IF_ERROR(next.status());
    event = std::move(*next);
  }
}

}  // namespace scalai::control
