// What a run of many jobs counts, and what its policy believes.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/proto/scenario.pb.h"
#include "ptc/sched/policies/catalogue.h"
#include "sim/jobs/scenario/internal/sched_parts.h"

namespace scalai::scenario::internal {
namespace {

// The jobs by number; nothing when there is a problem, which is reported.
std::optional<sched::Window> window_by_jobs(SchedContext& context) {
  const proto::Window& given = context.message.window();
  const auto& jobs = context.scenario.workload.jobs;
  const int64_t total = std::ssize(jobs);
  const int64_t to_job = context.source.given("window.to_job") ? given.to_job() : total;
  if (given.from_job() < 0 || given.from_job() >= total) {
    context.source.error("window.from_job", fmt::format("there is no job {}", given.from_job()),
                         fmt::format("the workload has {} jobs, 0 to {}", total, total - 1));
    return std::nullopt;
  }
  if (to_job <= given.from_job() || to_job > total) {
    context.source.error(
        "window.to_job", fmt::format("jobs {} to before {} are no window", given.from_job(), to_job),
        fmt::format("it is the first job that does not count any more: {} to {}", given.from_job() + 1, total));
    return std::nullopt;
  }
  sched::Window window;
  window.from_job = static_cast<size_t>(given.from_job());
  window.to_job = static_cast<size_t>(to_job);
  window.from_s = jobs[window.from_job].submit_s;
  return window;
}

std::optional<sched::Window> window_by_time(SchedContext& context) {
  Source& source = context.source;
  const proto::Window& given = context.message.window();
  const auto& jobs = context.scenario.workload.jobs;
  sched::Window window;
  if (source.given("window.from")) {
    const auto from_s = source.seconds("window.from", given.from());
    if (!from_s) return std::nullopt;
    window.from_s = *from_s;
  }
  const bool ends = source.given("window.to");
  double to_s = sched::kNever;
  if (ends) {
    const auto read_s = source.seconds("window.to", given.to());
    if (!read_s) return std::nullopt;
    window.to_s = to_s = *read_s;
  }
  if (to_s <= window.from_s) {
    source.error("window.to", fmt::format("the window ends at {} s, before it begins", to_s));
    return std::nullopt;
  }
  const auto before = [&](double at_s) {
    return static_cast<size_t>(
        std::count_if(jobs.begin(), jobs.end(), [&](const auto& j) { return j.submit_s < at_s; }));
  };
  window.from_job = before(window.from_s);
  window.to_job = before(to_s);
  if (window.from_job < window.to_job) return window;
  source.error(source.given("window.from") ? "window.from" : "window.to", "no job is submitted in the window",
               fmt::format("the {} jobs are submitted from {} s to {} s", jobs.size(), jobs.front().submit_s,
                           jobs.back().submit_s));
  return std::nullopt;
}

}  // namespace

void build_window(SchedContext& context) {
  Source& source = context.source;
  if (!source.given("window") || !context.workload_ok) return;
  const bool first = source.given("window.from_job"), by_job = first || source.given("window.to_job");
  const bool from = source.given("window.from"), by_time = from || source.given("window.to");
  if (by_job && by_time) {
    source.error(from ? "window.from" : "window.to", "a window is of jobs by number or by time, not both", "",
                 {{first ? "window.from_job" : "window.to_job", "a number is here"}});
    return;
  }
  if (!by_job && !by_time) {
    source.error("window", "this window says neither which jobs nor which time counts",
                 "write it like window { from_job: 4000 to_job: 5000 } or window { from: \"10d\" to: \"20d\" }");
    return;
  }
  auto window = by_job ? window_by_jobs(context) : window_by_time(context);
  if (!window) return;
  window->run_on = context.message.window().run_on();
  context.scenario.options.window = window;
}

void build_estimates(SchedContext& context) {
  Source& source = context.source;
  const proto::Estimates& given = context.message.estimates();
  if (!(given.uniform() >= 0 && given.uniform() < 1)) {
    return source.error("estimates.uniform", fmt::format("\"uniform\" is {}, of [0, 1)", given.uniform()),
                        "0.2 means factors between 0.8 and 1.2");
  }
  constexpr double kMost = 10;  // factors of more than e^50 are no estimates
  if (!(given.log_normal() >= 0 && given.log_normal() <= kMost)) {
    return source.error("estimates.log_normal",
                        fmt::format("\"log_normal\" is {}, of 0 to {}", given.log_normal(), kMost),
                        "0.5 means that two in three estimates are within a factor of e^0.5 = 1.65");
  }
  if (given.uniform() > 0 && given.log_normal() > 0) {
    return source.error("estimates.log_normal", "\"uniform\" and \"log_normal\" exclude each other", "",
                        {{"estimates.uniform", "the first is here"}});
  }
  ClusterScenario& scenario = context.scenario;
  scenario.estimates = {.uniform = given.uniform(), .log_normal = given.log_normal()};
  if (scenario.estimates.none() || !scenario.policy.exec.empty() || source.broken_inside("policy")) return;
  const auto policy = sched::make_policy(scenario.policy.name, scenario.policy.set, scenario.seed);
  if (policy.ok() && !(*policy)->traits().needs_durations) {
    scenario.notes.push_back(
        fmt::format("{} does not ask how long jobs take: estimates change nothing", scenario.policy.name));
  }
}

}  // namespace scalai::scenario::internal
