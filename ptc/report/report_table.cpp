// The table of one run, for people.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"

namespace scalai::report {

std::string four_digits(double value) {
  if (std::fabs(value) < 9999.5 || std::fabs(value) >= 1e15) return fmt::format("{:.4g}", value);
  const double unit = std::pow(10.0, std::floor(std::log10(std::fabs(value))) - 3);
  return fmt::format("{:.0f}", std::round(value / unit) * unit);
}

std::string rate(double samples_per_s) { return four_digits(samples_per_s) + " /s"; }

// 0 is the start, so a plain number of seconds reads better than "0 s" and "12 h 3 min" mixed.
std::string moment(double seconds) {
  return seconds < 600 ? fmt::format("{:.1f} s", seconds) : format_seconds(seconds);
}

namespace {

// ---- one run --------------------------------------------------------------------------------------------------------
std::string job_table(const Summary& summary, const Screen& screen) {
  Table table({"job", "state", "steps>", "samples>", "wall>", "training>", "downtime>", "lost steps>", "goodput>",
               "GPU hours>"});
  table.leave_out_first({"samples", "training", "GPU hours", "lost steps"});
  for (const JobSummary& job : summary.jobs) {
    table.row({clipped(job.name, kNameColumns), job.state, std::to_string(job.steps), std::to_string(job.samples),
               format_seconds(job.wall_s) + deviation(wall_spread(job), "s"), format_seconds(job.training_s),
               format_seconds(job.downtime_s) + deviation(downtime_spread(job), "s"), std::to_string(job.lost_steps),
               rate(job.goodput_samples_per_s), four_digits(job.gpu_hours)});
  }
  return table.text(screen);
}

std::string schedule_table(const Summary& summary, const Screen& screen) {
  Table table({"job", "submitted>", "started>", "waited>", "completion>", "restarts>", "preempted>", "deadline"});
  table.leave_out_first({"submitted", "preempted"});
  bool any = false;
  int64_t complete = 0;
  double completion_s = 0, waited_s = 0;
  for (const JobSummary& job : summary.jobs) {
    if (!job.schedule) continue;
    any = true;
    const ScheduleSummary& schedule = *job.schedule;
    const bool done = job.state == "complete";
    if (done) {
      ++complete;
      completion_s += job.wall_s;
      waited_s += schedule.waited_s;
    }
    const std::string deadline = !schedule.deadline_s     ? "–"
                                 : !schedule.deadline_met ? "open"
                                 : *schedule.deadline_met ? "met"
                                                          : "missed";
    table.row({clipped(job.name, kNameColumns), moment(schedule.submit_s),
               schedule.first_start_s ? moment(*schedule.first_start_s) : "never", format_seconds(schedule.waited_s),
               done ? format_seconds(job.wall_s) : "–", std::to_string(schedule.restarts),
               std::to_string(schedule.preemptions), deadline});
  }
  if (!any) return "";
  std::string text = "\n" + table.text(screen);
  if (complete > 0) {
    const auto count = static_cast<double>(complete);
    text += fmt::format("{} of {} complete; mean completion time {}, mean wait {}\n", complete,
                        counted(std::ssize(summary.jobs), "job"), format_seconds(completion_s / count),
                        format_seconds(waited_s / count));
  }
  return text;
}

std::string dataset_lines(const Summary& summary) {
  std::string text;
  for (const JobSummary& job : summary.jobs) {
    if (!job.dataset) continue;
    const DatasetSummary& data = *job.dataset;
    text += fmt::format("{}: dataset of {}, at {} of pass {}; ", clipped(job.name, kNameColumns),
                        counted(data.samples, "sample"), data.consumed, data.pass);
    text += data.samples_read ? counted(*data.samples_read, "sample") + " read" : "nothing was read in this run";
    if (data.bytes_read.value_or(0) > 0) text += fmt::format(" ({})", format_bytes(*data.bytes_read));
    if (data.steps_read_again > 0) {
      text += fmt::format("; {} ({}) {} again after rollbacks", counted(data.steps_read_again, "step"),
                          counted(data.samples_read_again, "sample"), data.samples_read ? "read" : "to be read");
    }
    if (data.samples_not_proved) {
      text += fmt::format("; not proved: the training program told no ids of {}",
                          counted(*data.samples_not_proved, "sample"));
    }
    if (data.exactly_once) text += *data.exactly_once ? "; exactly once" : "; NOT exactly once";
    if (data.exactly_once.value_or(false) && data.drop_last)
      text += ", but for the short batch that each pass leaves out (drop_last)";
    text += "\n";
  }
  return text;
}

// Each reason for idle GPUs once, with the moment from which it holds.
std::string idle_lines(const Summary& summary) {
  std::string text;
  std::set<std::string> told;
  for (const JobSummary& job : summary.jobs) {
    for (const ConfigurationSummary& c : job.configurations.value_or(std::vector<ConfigurationSummary>{})) {
      if (!c.idle || !told.insert(job.name + "\n" + *c.idle).second) continue;
      text += printable_text(fmt::format("{} from {}: {}", job.name, moment(c.since_s), *c.idle)) + "\n";
    }
  }
  return text;
}

std::string configuration_table(const Summary& summary, const Screen& screen) {
  const bool several = summary.jobs.size() > 1;
  bool other_batch = false;  // than that of the scenario
  for (const JobSummary& job : summary.jobs) {
    for (const ConfigurationSummary& c : job.configurations.value_or(std::vector<ConfigurationSummary>{}))
      other_batch = other_batch || c.global_batch;
  }
  std::vector<std::string> headers = {"from>", "trains as", "GPUs>", "micro-batch>", "recompute", "step>", "MFU>"};
  if (other_batch) headers.insert(headers.begin() + 3, "batch>");
  if (several) headers.insert(headers.begin(), "job");
  Table table(std::move(headers));
  table.leave_out_first({"recompute", "MFU"});
  bool any = false;
  for (const JobSummary& job : summary.jobs) {
    for (const ConfigurationSummary& c : job.configurations.value_or(std::vector<ConfigurationSummary>{})) {
      any = true;
      std::vector<std::string> cells = {moment(c.since_s),
                                        clipped(c.layout, kNameColumns),
                                        std::to_string(c.gpus),
                                        std::to_string(c.micro_batch),
                                        clipped(c.recompute, kNameColumns),
                                        c.step_s ? format_seconds(*c.step_s) : "stands still",
                                        c.mfu ? fmt::format("{:.1f} %", 100 * *c.mfu) : "–"};
      if (other_batch) cells.insert(cells.begin() + 3, c.global_batch ? std::to_string(*c.global_batch) : "as given");
      if (several) cells.insert(cells.begin(), clipped(job.name, kNameColumns));
      table.row(std::move(cells));
    }
  }
  return any ? "\n" + table.text(screen) + idle_lines(summary) : "";
}

std::string trained_table(const Summary& summary, const Screen& screen) {
  const bool several = summary.jobs.size() > 1;
  std::vector<std::string> headers = {"trained as", "GPUs>", "steps>", "step, measured>", "in the scenario>"};
  if (several) headers.insert(headers.begin(), "job");
  Table table(std::move(headers));
  bool any = false;
  for (const JobSummary& job : summary.jobs) {
    for (const TrainedSummary& trained : job.trained.value_or(std::vector<TrainedSummary>{})) {
      any = true;
      std::vector<std::string> cells = {clipped(trained.layout, kNameColumns), std::to_string(trained.gpus),
                                        std::to_string(trained.steps), format_seconds(trained.step_s),
                                        format_seconds(trained.scenario_step_s)};
      if (several) cells.insert(cells.begin(), clipped(job.name, kNameColumns));
      table.row(std::move(cells));
    }
  }
  return any ? "\n" + table.text(screen) : "";
}

std::string change_of(const ReconfigurationSummary& r) {
  return clipped(r.from, kNameColumns) + " → " + clipped(r.to, kNameColumns);
}

// Some pause was measured, while the scenario's clock went by what it says of costs.
bool has_measured_pauses(const Summary& summary) {
  return std::any_of(summary.jobs.begin(), summary.jobs.end(), [](const JobSummary& job) {
    return std::any_of(job.reconfigurations.begin(), job.reconfigurations.end(),
                       [](const ReconfigurationSummary& r) { return r.scenario_phases_s.has_value(); });
  });
}

std::vector<std::string> reconfiguration_row(const ReconfigurationSummary& r) {
  const std::string pause = r.resumed_s ? format_seconds(r.pause_s) : "never ends";
  return {moment(r.at_s),
          clipped(r.cause, kNameColumns),
          change_of(r),
          format_bytes(r.bytes.same_host),
          format_bytes(r.bytes.cross_host),
          format_bytes(r.lower_bound_bytes.cross_host),
          format_bytes(r.bytes.from_storage),
          format_seconds(r.phases_s.transfer),
          pause,
          r.resumed_s ? format_seconds(*r.resumed_s - r.at_s) : "never ends",
          std::to_string(r.rolled_back_steps)};
}

std::vector<std::string> loss_row(const LossSummary& loss) {
  return {moment(loss.at_s),
          clipped("lost " + loss.devices, kNameColumns),
          consequence_of(loss),
          "",
          "",
          "",
          "",
          "",
          "",
          "",
          ""};
}

// The column of job names only where there are several jobs. Losses of their own come at their time; with several jobs,
// which have their rows one after another, at the end.
std::string reconfiguration_table(const Summary& summary, const Screen& screen) {
  const bool several = summary.jobs.size() > 1;
  const bool measured = has_measured_pauses(summary);
  std::vector<std::string> headers = {"at>",      "cause~",    "from → to~", "same host>", "cross host>", "bound>",
                                      "storage>", "transfer>", "pause>",     "scenario>",  "lost>"};
  constexpr auto kInTheScenario = 9;  // of executed runs only
  if (!measured) headers.erase(headers.begin() + kInTheScenario);
  if (several) headers.insert(headers.begin(), "job");
  Table table(std::move(headers));
  table.leave_out_first({"same host", "storage", "lost", "bound", "transfer"});
  std::vector<std::pair<double, std::vector<std::string>>> rows;  // with the time of each
  for (const JobSummary& job : summary.jobs) {
    for (const ReconfigurationSummary& r : job.reconfigurations) {
      rows.emplace_back(r.at_s, reconfiguration_row(r));
      if (several) rows.back().second.insert(rows.back().second.begin(), clipped(job.name, kNameColumns));
    }
  }
  for (const LossSummary& loss : losses_without_change(summary)) {
    rows.emplace_back(loss.at_s, loss_row(loss));
    if (several) rows.back().second.insert(rows.back().second.begin(), "");
  }
  if (!measured) {
    for (auto& [at_s, cells] : rows) cells.erase(cells.begin() + kInTheScenario + (several ? 1 : 0));
  }
  if (!several)
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [at_s, cells] : rows) table.row(std::move(cells));
  return table.text(screen) +
         (measured ? "pause: measured; scenario: by its clock, with costs that workers do not have\n" : "");
}

// What ± is, with the phases that it leaves out; "" without any.
std::string deviation_lines(const Summary& summary, const Screen& screen) {
  std::string without;
  bool any = false;
  for (const JobSummary& job : summary.jobs) {
    if (!job.interval) continue;
    any = true;
    if (without.find(job.interval->without) != std::string::npos) continue;
    without += (without.empty() ? "" : ", ") + job.interval->without;
  }
  if (!any) return "";
  const std::string text = "±: how far the models may be off, to the further end" +
                           (without.empty() ? "" : "; without " + without + ", whose errors are not known");
  return fmt::format("{}\n", fmt::join(wrapped(text, screen.columns), "\n"));
}

}  // namespace

std::string summary_table(const std::string& summary_json_text, const Screen& screen) {
  const absl::StatusOr<Summary> read = read_summary(summary_json_text);
  if (!read.ok()) return message_of(read.status()) + "\n";
  const Summary& summary = *read;
  std::string text = fmt::format("scenario {}  strategy {}  runtime {}  seed {}  end {}\n\n",
                                 printable_text(summary.scenario), printable_text(summary.strategy),
                                 printable_text(summary.runtime), summary.seed, moment(summary.end_s));
  text += job_table(summary, screen) + dataset_lines(summary) + moment_lines(summary) + copy_lines(summary);
  bool any = !losses_without_change(summary).empty();
  for (const JobSummary& job : summary.jobs) {
    any |= !job.reconfigurations.empty();
    const char* what = job.state == "waiting" ? "waits" : job.state == "stalled" ? "stands still" : "failed";
    if (!job.failure.empty()) text += printable_text(fmt::format("{} {}: {}", job.name, what, job.failure)) + "\n";
  }
  text += downtime_table(summary, screen) + schedule_table(summary, screen) + configuration_table(summary, screen) +
          trained_table(summary, screen);
  if (const std::string notices = notice_lines(summary, screen); !notices.empty()) text += "\n" + notices;
  text += any ? "\n" + reconfiguration_table(summary, screen) : "\nno reconfigurations\n";
  text += cause_lines(summary, screen);
  return text + basis_text(summary.basis.value_or(std::vector<Basis>{}), screen) + deviation_lines(summary, screen);
}

}  // namespace scalai::report
