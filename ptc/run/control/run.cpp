#include "ptc/run/control/run.h"

#include <fmt/format.h>

#include <memory>

#include "ptc/base/status.h"
#include "ptc/run/control/internal/policy_text.h"
#include "ptc/run/policy/policies/external/external.h"

namespace scalai::control {

namespace {

bool is_over(const JobRecord& job) {
  return job.state == "complete" || job.state == "failed" || job.state == "stopped" || job.state == "refused";
}

// A report of a failed policy says so in its jobs: without any left to say it in, the error stands for itself.
absl::StatusOr<RunReport> cut_short(RunReport report, const absl::Status& why) {
  bool said = false;
  for (JobRecord& job : report.jobs) {
    if (is_over(job)) continue;
    job.failure = fmt::format("cut short at step {}: {}", job.steps, message_of(why));
    job.state = "failed";
    said = true;
  }
  if (!said) return why;
  return report;
}

// Nothing can happen any more: what is not over never will be.
RunReport stuck(RunReport report) {
  for (size_t i = 0; i < report.jobs.size(); ++i) {
    JobRecord& job = report.jobs[i];
    if (is_over(job)) continue;
    if (job.state == "waiting") {
      job.failure = fmt::format("stuck at step {}: it waits for devices that never come (wants {} GPUs){}", job.steps,
                                report.scenario->jobs[i].gpus, job.failure.empty() ? "" : "; " + job.failure);
    } else {
      job.failure = fmt::format("stuck at step {}: {} stands still on a link that stays down", job.steps,
                                job.state == "reconfiguring" ? "its transfer" : "training");
    }
    job.state = "failed";
  }
  return report;
}

}  // namespace

absl::StatusOr<const step::StepTimeModel*> step_times_of(const scenario::Scenario& scenario,
                                                         const step::StepTimeModel& analytic,
                                                         const step::StepTimeModel* simulated) {
  if (scenario.compute == scenario::Compute::kAnalytic) return &analytic;
  for (const scenario::JobSpec& job : scenario.jobs) {
    const step::Schedule schedule = job.training.schedule;
    if (schedule == step::Schedule::kZeroBubble1 || schedule == step::Schedule::kZeroBubble2)
      return invalid(
          fmt::format("job \"{}\": steps of schedule {} are priced, not simulated; leave compute: SIMULATED out",
                      job.name, step::name_of(schedule)));
  }
  if (simulated == nullptr) return missing("this scenario says compute: SIMULATED, and steps cannot be simulated here");
  return simulated;
}

absl::StatusOr<RunReport> run(const scenario::Scenario& scenario, const scenario::Strategy& strategy, Runtime& runtime,
                              const RunOptions& options) {
  const step::AnalyticStepTime analytic;
  SCALAI_ASSIGN_OR_RETURN(const step::StepTimeModel* const step_time,
                          step_times_of(scenario, analytic, options.simulated));
  std::unique_ptr<policy::Policy> program;
  if (scenario.policy && !scenario.policy->exec.empty()) {
    const scenario::PolicySpec& spec = *scenario.policy;
    program = policy::make_external_policy(
        {.command = spec.exec, .folder = spec.folder, .timeout_s = spec.timeout_s, .seed = scenario.seed});
  }
  RecordedPolicy recorded(program.get(), options.record_answer);
  SCALAI_RETURN_IF_ERROR(recorded.learn(options.answered, "journal"));
  Control control(scenario, strategy, *step_time,
                  {.check_plans = options.check_plans,
                   .reads_samples = options.reads_samples,
                   .policy = program != nullptr ? &recorded : nullptr});
  SCALAI_RETURN_IF_ERROR(control.policy_status());
  Event event{.at_s = 0, .body = Started{}};
  while (true) {
    const std::vector<Command> commands = control.step(event);
    if (const absl::Status& policy = control.policy_status(); !policy.ok()) {
      if (options.report_when_policy_fails) return cut_short(control.report(event.at_s), policy);
      return policy;
    }
    for (const Command& command : commands) {
      SCALAI_RETURN_IF_ERROR(runtime.perform(command));
      if (std::holds_alternative<Stop>(command)) return control.report(event.at_s);
    }
    if (options.watch) options.watch(event.at_s, control);
    absl::StatusOr<Event> next = runtime.next_event();
    if (!next.ok() && next.status().code() == absl::StatusCode::kFailedPrecondition) {
      return stuck(control.report(event.at_s));
    }
    SCALAI_RETURN_IF_ERROR(next.status());
    event = std::move(*next);
  }
}

}  // namespace scalai::control
