#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"

namespace scalai::report {
namespace {

constexpr double kRounding = 1e-6;  // of sums of steps
constexpr int kMoments = 4;         // of the interval: that of the run, and those of moved runs
constexpr int kMostDevices = 2048;  // more runs of larger jobs take minutes

bool near(double a, double b) { return std::fabs(a - b) <= kRounding * std::max({1.0, std::fabs(a), std::fabs(b)}); }

// The only failure of the script, at a time; nothing: there is none, or devices were lost besides.
std::optional<double> only_failure_s(const control::RunReport& report) {
  std::optional<double> at_s;
  for (const control::ScriptRecord& one : report.script) {
    if (!std::holds_alternative<scenario::Fail>(report.scenario->events.at(one.event).what)) continue;
    if (at_s) return std::nullopt;
    at_s = one.at_s;
  }
  const auto apart = [&](const control::LossRecord& loss) { return loss.at_s != *at_s; };
  if (!at_s || std::any_of(report.losses.begin(), report.losses.end(), apart)) return std::nullopt;
  return at_s;
}

// The change that it set off.
const control::ReconfigurationRecord* change_by(double failure_s, const control::JobRecord& job) {
  const auto found = std::find_if(job.reconfigurations.begin(), job.reconfigurations.end(), [&](const auto& change) {
    return change.at_s >= failure_s && (change.phases.detect > 0 || change.failed);
  });
  const bool done = found != job.reconfigurations.end() && found->completed && job.state != "failed";
  return done ? &*found : nullptr;
}

std::optional<MomentSummary> closed_form(const control::JobRecord& job, const scenario::JobSpec& spec,
                                         const control::ReconfigurationRecord& change) {
  if (!change.failed || change.aborted_attempts > 0) return std::nullopt;
  if (spec.choose && spec.choose->objective == step::Objective::kPayOff) return std::nullopt;
  const control::FailureMoment& failed = *change.failed;
  const double again_s = static_cast<double>(change.rolled_back_steps) * failed.step_s;
  if (!near(again_s, job.downtime.run_again_s)) return std::nullopt;  // steps of several lengths
  const double every_s = static_cast<double>(failed.every_steps) * failed.step_s;
  if (!(every_s > 0)) return std::nullopt;
  // A copy that is due while the one before is being written is left out.
  const double interval_s = every_s * std::max(1.0, std::ceil(failed.written_s / every_s - kRounding));
  for (const control::ReconfigurationRecord& before : job.reconfigurations) {
    const bool recent = before.index < change.index && before.resumed_s > change.at_s - interval_s - failed.written_s;
    if (recent) return std::nullopt;
  }
  // The step that the end of the run cuts off depends on the moment, too, and says nothing of the failure.
  const double least_s = job.downtime_s - again_s - job.downtime.cut_off_s + failed.written_s;
  return MomentSummary{.interval_s = interval_s,
                       .lost_s = again_s + failed.cut_off_s,
                       .expected_s = least_s + interval_s / 2,
                       .low_s = least_s,
                       .high_s = least_s + interval_s};
}

// Between copies, at the step time before the failure; 0 = not known.
double interval_of(const control::JobRecord& job, const scenario::JobSpec& spec, double failure_s) {
  double step_s = 0;
  for (const control::ConfigurationRecord& one : job.configurations)
    if (one.since_s < failure_s) step_s = one.step_s.value_or(step_s);
  int64_t every = spec.redundancy.copies > 0 ? spec.redundancy.every_steps : spec.checkpoint.every_steps;
  return static_cast<double>(std::max<int64_t>(1, every)) * step_s;
}

std::optional<MomentSummary> of_moved_runs(const control::RunReport& report, size_t job, double interval_s) {
  MomentSummary result{.interval_s = interval_s, .lost_s = {}, .low_s = report.jobs[job].downtime_s};
  result.expected_s = result.high_s = result.low_s;
  for (const std::vector<control::JobRecord>& jobs : report.moved) {
    if (jobs.at(job).state == "failed") continue;
    const double downtime_s = jobs[job].downtime_s;
    result.low_s = std::min(result.low_s, downtime_s);
    result.high_s = std::max(result.high_s, downtime_s);
    result.expected_s += downtime_s;
    ++result.moved_runs;
  }
  if (result.moved_runs == 0) return std::nullopt;
  result.expected_s /= static_cast<double>(result.moved_runs + 1);
  return result;
}

// Whether the failure came at moments of one distance to the last copy: then all moments shift both runs alike.
bool in_phase(const MomentSummary& a, const MomentSummary& b) {
  return a.lost_s && b.lost_s && near(a.interval_s, b.interval_s) && near(*a.lost_s, *b.lost_s);
}

const MomentSummary* moment_of(const Summary& run, const std::string& job) {
  const auto found = std::find_if(run.jobs.begin(), run.jobs.end(), [&](const auto& one) { return one.name == job; });
  return found != run.jobs.end() && found->any_moment ? &*found->any_moment : nullptr;
}

// The runs whose order depends on the moment: ranges overlap with that of another one.
std::vector<size_t> undecided(const std::vector<Summary>& runs, const std::string& job) {
  std::vector<size_t> found;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto overlaps = [&](const Summary& run) {
      const MomentSummary *a = moment_of(runs[i], job), *b = moment_of(run, job);
      if (&run == &runs[i] || a == nullptr || b == nullptr || in_phase(*a, *b)) return false;
      return a->low_s < b->high_s && b->low_s < a->high_s;
    };
    if (std::any_of(runs.begin(), runs.end(), overlaps)) found.push_back(i);
  }
  return found;
}

}  // namespace

std::optional<MomentSummary> moments_of(const control::RunReport& report, int job) {
  const std::optional<double> failure_s = only_failure_s(report);
  if (!failure_s) return std::nullopt;
  const auto at = static_cast<size_t>(job);
  const control::JobRecord& record = report.jobs.at(at);
  const scenario::JobSpec& spec = report.scenario->jobs.at(at);
  const control::ReconfigurationRecord* change = change_by(*failure_s, record);
  if (change == nullptr) return std::nullopt;
  const std::optional<MomentSummary> closed = closed_form(record, spec, *change);
  return closed ? closed : of_moved_runs(report, at, interval_of(record, spec, *failure_s));
}

std::optional<Moves> moves_to_play(const control::RunReport& report) {
  const std::optional<double> failure_s = only_failure_s(report);
  const scenario::Scenario& scenario = *report.scenario;
  const bool program = scenario.policy && !scenario.policy->exec.empty();  // it may answer otherwise
  if (!failure_s || program || scenario.cluster.device_count() > kMostDevices) return std::nullopt;
  // A failure at a step or in a change comes when that comes.
  const bool timed = std::any_of(scenario.events.begin(), scenario.events.end(), [&](const auto& event) {
    const auto* const at = std::get_if<scenario::AtTime>(&event.when);
    return at != nullptr && at->at_s == *failure_s && std::holds_alternative<scenario::Fail>(event.what);
  });
  if (!timed) return std::nullopt;
  double interval_s = 0;
  for (size_t job = 0; job < report.jobs.size(); ++job) {
    const control::JobRecord& record = report.jobs[job];
    const scenario::JobSpec& spec = scenario.jobs.at(job);
    const control::ReconfigurationRecord* change = change_by(*failure_s, record);
    if (change == nullptr || closed_form(record, spec, *change)) continue;
    interval_s = std::max(interval_s, interval_of(record, spec, *failure_s));
  }
  if (interval_s == 0) return std::nullopt;
  Moves moves{.from_s = *failure_s, .by_s = {}};
  for (int k = 1; k < kMoments; ++k) moves.by_s.push_back(interval_s * k / kMoments);
  return moves;
}

std::string moment_text(const MomentSummary& moment) {
  const std::string where = moment.moved_runs > 0 ? fmt::format("at {} moments within", moment.moved_runs + 1)
                                                  : std::string("as the failure moves over");
  return fmt::format("{} on average ({} to {}) {} {}", format_seconds(moment.expected_s), format_seconds(moment.low_s),
                     format_seconds(moment.high_s), where, format_seconds(moment.interval_s));
}

bool wide_range(const MomentSummary& moment) { return moment.high_s - moment.low_s > 0.1 * moment.expected_s; }

std::string moment_lines(const Summary& summary) {
  std::string text;
  for (const JobSummary& job : summary.jobs) {
    if (!job.any_moment || !wide_range(*job.any_moment)) continue;
    text += fmt::format("{}: downtime {}; {} at its moment in the scenario\n", clipped(job.name, kNameColumns),
                        moment_text(*job.any_moment), format_seconds(job.downtime_s));
  }
  return text;
}

std::string moment_warning(const std::vector<std::string>& labels, const std::vector<Summary>& runs) {
  std::string text;
  if (runs.size() < 2) return text;
  for (const JobSummary& job : runs.front().jobs) {
    const std::vector<size_t> found = undecided(runs, job.name);
    if (found.empty()) continue;
    if (!text.empty()) text += "; ";
    text += "which of these runs loses less time depends on the moment of the failure";
    if (runs.front().jobs.size() > 1) text += fmt::format(", for job {}", clipped(job.name, kNameColumns));
    for (const size_t i : found) {
      const MomentSummary& moment = *moment_of(runs[i], job.name);
      text +=
          fmt::format("{} {} {} ({} to {})", i == found.front() ? ":" : ",", labels[i],
                      format_seconds(moment.expected_s), format_seconds(moment.low_s), format_seconds(moment.high_s));
    }
  }
  return text.empty() ? "" : printable_text(text);
}

}  // namespace scalai::report
