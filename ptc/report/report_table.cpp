// Reports for people: the table of one run, and several runs side by side.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"

namespace scalai::report {
namespace {

std::string four_digits(double value) { return fmt::format("{:.4g}", value); }

std::string rate(double samples_per_s) { return four_digits(samples_per_s) + " /s"; }

// ---- one run --------------------------------------------------------------------------------------------------------
std::string job_table(const Summary& summary) {
  Table table({"job", "state", "steps>", "samples>", "wall>", "training>", "downtime>", "lost steps>", "goodput>",
               "GPU hours>"});
  for (const JobSummary& job : summary.jobs) {
    table.row({clipped(job.name, kNameColumns), job.state, std::to_string(job.steps), std::to_string(job.samples),
               format_seconds(job.wall_s), format_seconds(job.training_s), format_seconds(job.downtime_s),
               std::to_string(job.lost_steps), rate(job.goodput_samples_per_s), four_digits(job.gpu_hours)});
  }
  return table.text();
}

std::string schedule_table(const Summary& summary) {
  Table table({"job", "submitted>", "started>", "waited>", "completion>", "restarts>", "preempted>", "deadline"});
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
  std::string text = "\n" + table.text();
  if (complete > 0) {
    const auto count = static_cast<double>(complete);
    text += fmt::format("{} of {} jobs complete; mean completion time {}, mean wait {}\n", complete,
                        summary.jobs.size(), format_seconds(completion_s / count), format_seconds(waited_s / count));
  }
  return text;
}

std::string dataset_lines(const Summary& summary) {
  std::string text;
  for (const JobSummary& job : summary.jobs) {
    if (!job.dataset) continue;
    const DatasetSummary& data = *job.dataset;
    text += fmt::format("{}: dataset of {} samples, at {} of pass {}; ", clipped(job.name, kNameColumns), data.samples,
                        data.consumed, data.pass);
    text += data.samples_read ? fmt::format("{} samples read", *data.samples_read) : "nothing was read in this run";
    if (data.bytes_read.value_or(0) > 0) text += fmt::format(" ({})", format_bytes(*data.bytes_read));
    if (data.steps_read_again > 0) {
      text += fmt::format("; {} steps ({} samples) {} again after rollbacks", data.steps_read_again,
                          data.samples_read_again, data.samples_read ? "read" : "to be read");
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

std::string configuration_table(const Summary& summary) {
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
  return any ? "\n" + table.text() + idle_lines(summary) : "";
}

std::string trained_table(const Summary& summary) {
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
  return any ? "\n" + table.text() : "";
}

std::string change_of(const ReconfigurationSummary& r) {
  return clipped(r.from, kNameColumns) + " → " + clipped(r.to, kNameColumns);
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
          ""};
}

// The column of job names only where there are several jobs. Losses of their own come at their time; with several jobs,
// which have their rows one after another, at the end.
std::string reconfiguration_table(const Summary& summary) {
  const bool several = summary.jobs.size() > 1;
  std::vector<std::string> headers = {"at>",    "cause",    "from → to", "same host>", "cross host>",
                                      "bound>", "storage>", "transfer>", "pause>",     "lost>"};
  if (several) headers.insert(headers.begin(), "job");
  Table table(std::move(headers));
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
  if (!several)
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [at_s, cells] : rows) table.row(std::move(cells));
  return table.text();
}

// ---- several runs ---------------------------------------------------------------------------------------------------
struct Row {
  const char* name;
  const char* title;
  const char* unit;
  bool hidden_when_zero;
  double (*of)(const JobSummary&);
  bool (*known)(const JobSummary&) = [](const JobSummary&) { return true; };  // false: the report is too old for it
};

template <double DowntimeSummary::*kPart>
constexpr Row downtime_row(const char* name, const char* title) {
  return {name,
          title,
          "s",
          true,
          [](const JobSummary& j) { return (*j.downtime).*kPart; },
          [](const JobSummary& j) { return j.downtime.has_value(); }};
}

double mean_pause(const JobSummary& job) {
  const auto count = static_cast<double>(job.totals.reconfigurations);
  return count > 0 ? job.totals.pause_s / count : 0;
}

double cross_host_bound(const JobSummary& job) {
  int64_t sum = 0;
  for (const ReconfigurationSummary& r : job.reconfigurations) sum += r.completed ? r.lower_bound_bytes.cross_host : 0;
  return static_cast<double>(sum);
}

double real(int64_t value) { return static_cast<double>(value); }

constexpr Row kMetrics[] = {
    {"steps", "steps", "", false, [](const JobSummary& j) { return real(j.steps); }},
    {"samples", "samples", "", false, [](const JobSummary& j) { return real(j.samples); }},
    {"wall_s", "wall", "s", false, [](const JobSummary& j) { return j.wall_s; }},
    {"training_s", "training", "s", false, [](const JobSummary& j) { return j.training_s; }},
    {"downtime_s", "downtime", "s", false, [](const JobSummary& j) { return j.downtime_s; }},
    downtime_row<&DowntimeSummary::reconfigurations_s>("downtime_reconfigurations_s", "  pauses"),
    downtime_row<&DowntimeSummary::waiting_s>("downtime_waiting_s", "  waiting"),
    downtime_row<&DowntimeSummary::run_again_s>("downtime_run_again_s", "  steps run again"),
    downtime_row<&DowntimeSummary::cut_off_s>("downtime_cut_off_s", "  steps cut off"),
    downtime_row<&DowntimeSummary::snapshots_s>("downtime_snapshots_s", "  snapshot stalls"),
    {"lost_steps", "lost steps", "", false, [](const JobSummary& j) { return real(j.lost_steps); }},
    {"goodput_samples_per_s", "goodput", "samples/s", false,
     [](const JobSummary& j) { return j.goodput_samples_per_s; }},
    {"gpu_hours", "GPU hours", "h", false, [](const JobSummary& j) { return j.gpu_hours; }},
    {"reconfigurations", "reconfigurations", "", false,
     [](const JobSummary& j) { return real(j.totals.reconfigurations); }},
    {"aborted_attempts", "aborted attempts", "", true,
     [](const JobSummary& j) { return real(j.totals.aborted_attempts); }},
    {"pause_s", "pause, total", "s", false, [](const JobSummary& j) { return j.totals.pause_s; }},
    {"pause_mean_s", "pause, mean", "s", false, mean_pause},
    {"phase_detect_s", "  detect", "s", true, [](const JobSummary& j) { return j.totals.phases_s.detect; }},
    {"phase_stop_s", "  stop", "s", true, [](const JobSummary& j) { return j.totals.phases_s.stop; }},
    {"phase_plan_s", "  plan", "s", true, [](const JobSummary& j) { return j.totals.phases_s.plan; }},
    {"phase_restart_s", "  restart", "s", true, [](const JobSummary& j) { return j.totals.phases_s.restart; }},
    {"phase_prepare_s", "  prepare", "s", true, [](const JobSummary& j) { return j.totals.phases_s.prepare; }},
    {"phase_transfer_s", "  transfer", "s", true, [](const JobSummary& j) { return j.totals.phases_s.transfer; }},
    {"phase_verify_s", "  verify", "s", true, [](const JobSummary& j) { return j.totals.phases_s.verify; }},
    {"phase_resume_s", "  resume", "s", true, [](const JobSummary& j) { return j.totals.phases_s.resume; }},
    {"phase_aborted_s", "  aborted", "s", true, [](const JobSummary& j) { return j.totals.phases_s.aborted; }},
    {"bytes_kept", "kept", "B", true, [](const JobSummary& j) { return real(j.totals.bytes.kept); }},
    {"bytes_same_device", "same device", "B", true,
     [](const JobSummary& j) { return real(j.totals.bytes.same_device); }},
    {"bytes_same_host", "same host", "B", false, [](const JobSummary& j) { return real(j.totals.bytes.same_host); }},
    {"bytes_cross_host", "cross host", "B", false, [](const JobSummary& j) { return real(j.totals.bytes.cross_host); }},
    {"lower_bound_bytes_cross_host", "cross host, bound", "B", false, cross_host_bound},
    {"bytes_from_storage", "from storage", "B", true,
     [](const JobSummary& j) { return real(j.totals.bytes.from_storage); }},
};

const JobSummary* find_job(const Summary& run, const std::string& name) {
  const auto found =
      std::find_if(run.jobs.begin(), run.jobs.end(), [&](const JobSummary& j) { return j.name == name; });
  return found == run.jobs.end() ? nullptr : &*found;
}

// Every job that some run has, in order of first appearance.
std::vector<std::string> job_names(const std::vector<Summary>& runs) {
  std::vector<std::string> names;
  for (const Summary& run : runs) {
    for (const JobSummary& job : run.jobs) {
      if (std::find(names.begin(), names.end(), job.name) == names.end()) names.push_back(job.name);
    }
  }
  return names;
}

std::optional<double> ratio_of(const std::vector<std::optional<double>>& values) {
  if (values.size() != 2 || !values[0] || !values[1] || *values[0] == 0) return std::nullopt;
  return *values[1] / *values[0];
}

void add_rows(const std::string& job, Comparison& comparison) {
  for (const Row& metric : kMetrics) {
    ComparisonRow row{job, metric.name, metric.title, metric.unit, metric.hidden_when_zero, {}, {}};
    for (const Summary& run : comparison.runs) {
      const JobSummary* found = find_job(run, job);
      const bool known = found != nullptr && metric.known(*found);
      row.values.push_back(known ? std::optional(metric.of(*found)) : std::nullopt);
    }
    row.ratio = ratio_of(row.values);
    comparison.rows.push_back(std::move(row));
  }
}

// Folder names differ at their end.
std::string shortened(const std::string& label) {
  const std::vector<std::string_view> letters = characters(label);
  if (letters.size() <= kNameColumns) return label;
  std::string tail = "…";
  for (size_t i = letters.size() - kNameColumns + 1; i < letters.size(); ++i) tail += letters[i];
  return tail;
}

// A person would take the ratio of two different things for a gain.
bool with_ratio(const Comparison& comparison) { return comparison.runs.size() == 2 && comparison.same_scenario; }

class ComparisonTable {
 public:
  explicit ComparisonTable(const Comparison& comparison) : comparison_(comparison), table_(headers(comparison)) {}

  std::string text() {
    words("strategy", [](const Summary& run) { return run.strategy; });
    words("runtime", [](const Summary& run) { return run.runtime; });
    const std::string* job = nullptr;
    for (const ComparisonRow& row : comparison_.rows) {
      if (job == nullptr || *job != row.job) start_job(row.job);
      job = &row.job;
      const bool zero =
          std::all_of(row.values.begin(), row.values.end(), [](const auto& v) { return v.value_or(0) == 0; });
      if (!zero || !row.hidden_when_zero) add(row);
    }
    return table_.text();
  }

 private:
  static std::vector<std::string> headers(const Comparison& comparison) {
    std::vector<std::string> result = {"run"};
    for (const std::string& label : comparison.labels) result.push_back(shortened(label) + ">");
    if (with_ratio(comparison)) result.emplace_back("ratio>");
    return result;
  }

  template <class Function>
  void words(const std::string& title, Function word_of) {
    std::vector<std::string> cells = {title};
    for (const Summary& run : comparison_.runs) cells.push_back(clipped(word_of(run), kNameColumns));
    finish(std::move(cells), "");
  }

  void start_job(const std::string& name) {
    table_.rule();
    words("job " + clipped(name, kNameColumns), [&](const Summary& run) {
      const JobSummary* job = find_job(run, name);
      return job == nullptr ? std::string("–") : job->state;
    });
  }

  void add(const ComparisonRow& row) {
    std::vector<std::string> cells = {row.title};
    for (const std::optional<double>& value : row.values) cells.push_back(value ? shown(*value, row.unit) : "–");
    finish(std::move(cells), row.ratio ? fmt::format("×{:.3g}", *row.ratio) : "");
  }

  void finish(std::vector<std::string> cells, std::string ratio) {
    if (with_ratio(comparison_)) cells.push_back(std::move(ratio));
    table_.row(std::move(cells));
  }

  const Comparison& comparison_;
  Table table_;
};

std::string note_on_scenarios(const Comparison& comparison) {
  if (comparison.same_scenario) return "";
  std::string note = "note: the runs are of different scenarios:";
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    const Summary& run = comparison.runs[i];
    note += fmt::format("{} {} is \"{}\" ({}, seed {})", i == 0 ? "" : ",", shortened(comparison.labels[i]),
                        run.scenario, run.scenario_digest.substr(0, 8), run.seed);
  }
  return printable_text(note) + "\n";
}

std::string comparison_csv(const Comparison& comparison) {
  std::vector<std::string> headers = {"job", "metric", "unit"};
  for (const std::string& label : comparison.labels) headers.push_back(label + ">");
  const bool two = comparison.runs.size() == 2;
  if (two) headers.emplace_back("ratio");
  Table table(std::move(headers));
  for (const ComparisonRow& row : comparison.rows) {
    std::vector<std::string> cells = {row.job, row.metric, row.unit};
    for (const std::optional<double>& value : row.values) cells.push_back(value ? shortest(*value) : "");
    if (two) cells.push_back(row.ratio ? shortest(*row.ratio) : "");
    table.row(std::move(cells));
  }
  return table.csv();
}

}  // namespace

// 0 is the start, so a plain number of seconds reads better than "0 s" and "12 h 3 min" mixed.
std::string moment(double seconds) {
  return seconds < 600 ? fmt::format("{:.1f} s", seconds) : format_seconds(seconds);
}

std::string shown(double value, const std::string& unit) {
  if (unit == "s") return format_seconds(value);
  if (unit == "B") return format_bytes(static_cast<int64_t>(value));
  if (unit == "samples/s") return rate(value);
  return unit.empty() ? fmt::format("{:.0f}", value) : four_digits(value);
}

absl::StatusOr<Comparison> compare_runs(const std::vector<std::pair<std::string, std::string>>& label_and_json) {
  Comparison comparison;
  for (const auto& [label, json] : label_and_json) {
    absl::StatusOr<Summary> run = read_summary(json);
    if (!run.ok()) return invalid(fmt::format("{}: {}", label, message_of(run.status())));
    comparison.labels.push_back(label);
    comparison.runs.push_back(*std::move(run));
    const Summary &first = comparison.runs.front(), &last = comparison.runs.back();
    comparison.same_scenario &= last.scenario_digest == first.scenario_digest && last.seed == first.seed;
  }
  for (const std::string& job : job_names(comparison.runs)) add_rows(job, comparison);
  comparison.prediction = prediction_of(comparison.runs);
  return comparison;
}

std::string summary_table(const std::string& summary_json_text) {
  const absl::StatusOr<Summary> read = read_summary(summary_json_text);
  if (!read.ok()) return message_of(read.status()) + "\n";
  const Summary& summary = *read;
  std::string text = fmt::format("scenario {}  strategy {}  runtime {}  seed {}  end {}\n\n",
                                 printable_text(summary.scenario), printable_text(summary.strategy),
                                 printable_text(summary.runtime), summary.seed, moment(summary.end_s));
  text += job_table(summary) + dataset_lines(summary) + redundancy_lines(summary);
  bool any = !losses_without_change(summary).empty();
  for (const JobSummary& job : summary.jobs) {
    any |= !job.reconfigurations.empty();
    const char* what = job.state == "waiting" ? "waits" : "failed";
    if (!job.failure.empty()) text += printable_text(fmt::format("{} {}: {}", job.name, what, job.failure)) + "\n";
  }
  text += downtime_table(summary) + schedule_table(summary) + configuration_table(summary) + trained_table(summary);
  text += any ? "\n" + reconfiguration_table(summary) : "\nno reconfigurations\n";
  return text + basis_text(summary.basis.value_or(std::vector<Basis>{}));
}

absl::StatusOr<std::string> compare_summaries(const std::vector<std::pair<std::string, std::string>>& label_and_json,
                                              const std::string& format) {
  if (label_and_json.empty()) return invalid("nothing to compare: name at least one report");
  SCALAI_ASSIGN_OR_RETURN(const Comparison comparison, compare_runs(label_and_json));
  if (format == "json") return comparison_json(comparison);
  if (format == "csv") return comparison_csv(comparison);
  if (format == "table") {
    const std::string prediction = comparison.prediction ? "\n" + prediction_table(*comparison.prediction) : "";
    return ComparisonTable(comparison).text() + note_on_scenarios(comparison) + prediction;
  }
  return invalid(fmt::format("unknown format \"{}\"; one of table, csv, json", clipped(format, 40)));
}

}  // namespace scalai::report
