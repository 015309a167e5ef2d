#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "nlohmann/json.hpp"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/plan/plan_io.h"
#include "ptc/run/control/event_text.h"
#include "ptc/run/control/internal/policy_text.h"
#include "ptc/run/control/run.h"

namespace scalai::control {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 53;

std::string plan_path(const std::string& folder, int number) {
  return fmt::format("{}/plans/{:03}.binpb", folder, number);
}

absl::StatusOr<std::string> strategy_of(const std::string& folder) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(folder + "/summary.json"));
  SCALAI_ASSIGN_OR_RETURN(const nlohmann::json summary, read_json(text, folder + "/summary.json"));
  if (!summary.is_object() || !summary.contains("strategy") || !summary["strategy"].is_string()) {
    return invalid(folder + "/summary.json: not a summary of a run (no \"strategy\")");
  }
  return summary["strategy"].get<std::string>();
}

// The strategy that ran comes from the summary. A scenario may be refused under its name although an earlier version
// ran it so (checkpoint-restart where no checkpoints are written), never under the default's.
absl::StatusOr<scenario::Scenario> scenario_of(const std::string& folder) {
  const std::string path = folder + "/scenario.resolved.textproto";
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  const scenario::FileReader read = [](const std::string& name) { return read_file(name); };
  return scenario::parse_scenario(scenario::with_strategy(text, scenario::Scenario{}.strategy), path, read);
}

absl::StatusOr<std::string> digest_in(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const std::string bytes, read_file(path));
  const absl::StatusOr<plan::Plan> plan = plan::parse_plan(bytes);
  if (!plan.ok()) return invalid(fmt::format("{}: {}", path, message_of(plan.status())));
  return plan->digest();
}

// A log may have been edited: everything that the control loop counts on is checked here.
absl::Status check(const Event& event, double last_s, const scenario::Scenario& scenario, int64_t timers) {
  if (event.at_s < last_s) return invalid(fmt::format("at {} s, after an event at {} s", event.at_s, last_s));
  return std::visit(
      [&](const auto& body) -> absl::Status {
        const auto outside = [](std::string_view what, auto value) {
          return invalid(fmt::format("there is no {} {} in this run", what, value));
        };
        if constexpr (requires { body.job; }) {
          if (body.job < 0 || body.job >= static_cast<int>(scenario.jobs.size())) return outside("job", body.job);
        }
        if constexpr (requires { body.step; }) {
          if (body.step < 0 || body.step > kMostSteps) return outside("step", body.step);
        }
        if constexpr (requires { body.from_step; }) {
          if (body.from_step < 0 || body.from_step > body.step) return outside("step", body.from_step);
        }
        if constexpr (requires { body.gpus; }) {
          if (body.gpus < 0) return outside("number of GPUs", body.gpus);
        }
        if constexpr (requires { body.timer; }) {
          if (body.timer < 0 || body.timer >= timers) return outside("timer", body.timer);
        }
        if constexpr (requires { body.devices; }) {
          for (const DeviceId device : body.devices) {
            if (device.value >= scenario.cluster.device_count()) return outside("device", device.value);
          }
        }
        return absl::OkStatus();
      },
      event.body);
}

absl::Status feed(Control& control, const scenario::Scenario& scenario, const std::vector<Event>& events,
                  const std::string& file) {
  double last_s = 0;
  int64_t timers = 0;
  SCALAI_RETURN_IF_ERROR(control.policy_status());
  for (size_t i = 0; i < events.size(); ++i) {
    if (std::holds_alternative<PolicyDecided>(events[i].body)) continue;
    absl::Status fits = check(events[i], last_s, scenario, timers);
    if (fits.ok() && std::holds_alternative<Started>(events[i].body) != (i == 0)) {
      fits = invalid("a run starts once, with its first event");
    }
    if (!fits.ok()) return invalid(fmt::format("{}: event {}: {}", file, i + 1, message_of(fits)));
    for (const Command& command : control.step(events[i])) timers += std::holds_alternative<ArmTimer>(command) ? 1 : 0;
    if (!control.policy_status().ok())
      return invalid(fmt::format("{}: event {}: {}", file, i + 1, message_of(control.policy_status())));
    last_s = events[i].at_s;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ReplayedPlan>> replay(const std::string& folder, const step::StepTimeModel* simulated) {
  SCALAI_ASSIGN_OR_RETURN(const std::string strategy_name, strategy_of(folder));
  SCALAI_ASSIGN_OR_RETURN(const scenario::Scenario scenario, scenario_of(folder));
  SCALAI_ASSIGN_OR_RETURN(const scenario::Strategy strategy, scenario::find_strategy(strategy_name, scenario.costs));
  SCALAI_ASSIGN_OR_RETURN(const std::string csv, read_file(folder + "/events.csv"));
  SCALAI_ASSIGN_OR_RETURN(const std::vector<Event> events, parse_events(csv));

  const step::AnalyticStepTime analytic;
  SCALAI_ASSIGN_OR_RETURN(const step::StepTimeModel* const step_time, step_times_of(scenario, analytic, simulated));
  const bool reads = std::any_of(events.begin(), events.end(),
                                 [](const Event& event) { return std::holds_alternative<SamplesRead>(event.body); });
  RecordedPolicy program;
  SCALAI_RETURN_IF_ERROR(program.learn(events, folder + "/events.csv"));
  const bool asks_program = scenario.policy && !scenario.policy->exec.empty();
  Control control(scenario, strategy, *step_time,
                  {.reads_samples = reads, .policy = asks_program ? &program : nullptr});
  SCALAI_RETURN_IF_ERROR(feed(control, scenario, events, folder + "/events.csv"));

  std::vector<ReplayedPlan> plans;
  for (int number = 1;; ++number) {
    const bool made = number <= static_cast<int>(control.plans().size());
    const std::string path = plan_path(folder, number);
    std::error_code ignored;
    const bool recorded = std::filesystem::exists(path, ignored);
    if (!made && !recorded) return plans;
    ReplayedPlan plan{.number = number};
    if (made) plan.replayed = control.plans()[static_cast<size_t>(number) - 1].digest();
    if (recorded) {
      SCALAI_ASSIGN_OR_RETURN(plan.recorded, digest_in(path));
    }
    plans.push_back(std::move(plan));
  }
}

}  // namespace scalai::control
