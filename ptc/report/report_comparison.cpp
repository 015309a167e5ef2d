// Several runs side by side, of one job, of many jobs, or of recovery designs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/jobs_report.h"
#include "ptc/report/report.h"

namespace scalai::report {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  const char* name;
  const char* title;
  const char* unit;
  bool hidden_when_zero;
  double (*of)(const JobSummary&);
  Better better = Better::kNone;
  bool (*known)(const JobSummary&) = [](const JobSummary&) { return true; };  // false: the report is too old for it
};

template <double DowntimeSummary::*kPart>
constexpr Row downtime_row(const char* name, const char* title) {
  return {name,
          title,
          "s",
          true,
          [](const JobSummary& j) { return (*j.downtime).*kPart; },
          Better::kLower,
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
    {"steps", "steps", "", false, [](const JobSummary& j) { return real(j.steps); }, Better::kHigher},
    {"samples", "samples", "", false, [](const JobSummary& j) { return real(j.samples); }, Better::kHigher},
    {"wall_s", "wall", "s", false, [](const JobSummary& j) { return j.wall_s; }},
    {"training_s", "training", "s", false, [](const JobSummary& j) { return j.training_s; }},
    {"downtime_s", "downtime", "s", false, [](const JobSummary& j) { return j.downtime_s; }, Better::kLower},
    downtime_row<&DowntimeSummary::reconfigurations_s>("downtime_reconfigurations_s", "  pauses"),
    downtime_row<&DowntimeSummary::waiting_s>("downtime_waiting_s", "  waiting"),
    downtime_row<&DowntimeSummary::run_again_s>("downtime_run_again_s", "  steps run again"),
    downtime_row<&DowntimeSummary::cut_off_s>("downtime_cut_off_s", "  steps cut off"),
    downtime_row<&DowntimeSummary::snapshots_s>("downtime_snapshots_s", "  snapshot stalls"),
    {"lost_steps", "lost steps", "", false, [](const JobSummary& j) { return real(j.lost_steps); }, Better::kLower},
    {"goodput_samples_per_s", "goodput", "samples/s", false,
     [](const JobSummary& j) { return j.goodput_samples_per_s; }, Better::kHigher},
    {"gpu_hours", "GPU hours", "h", false, [](const JobSummary& j) { return j.gpu_hours; }},
    {"reconfigurations", "reconfigurations", "", false,
     [](const JobSummary& j) { return real(j.totals.reconfigurations); }},
    {"aborted_attempts", "aborted attempts", "", true,
     [](const JobSummary& j) { return real(j.totals.aborted_attempts); }, Better::kLower},
    {"pause_s", "pause, total", "s", false, [](const JobSummary& j) { return j.totals.pause_s; }, Better::kLower},
    {"pause_mean_s", "pause, mean", "s", false, mean_pause, Better::kLower},
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
    {"bytes_cross_host", "cross host", "B", false, [](const JobSummary& j) { return real(j.totals.bytes.cross_host); },
     Better::kLower},
    {"lower_bound_bytes_cross_host", "cross host, bound", "B", false, cross_host_bound},
    {"bytes_from_storage", "from storage", "B", true,
     [](const JobSummary& j) { return real(j.totals.bytes.from_storage); }, Better::kLower},
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
    ComparisonRow row{job, metric.name, metric.title, metric.unit, metric.hidden_when_zero, metric.better, {}, {}};
    for (const Summary& run : comparison.runs) {
      const JobSummary* found = find_job(run, job);
      const bool known = found != nullptr && metric.known(*found);
      row.values.push_back(known ? std::optional(metric.of(*found)) : std::nullopt);
    }
    row.ratio = ratio_of(row.values);
    comparison.rows.push_back(std::move(row));
  }
}

// ---- many jobs, recovery designs ------------------------------------------------------------------------------------

using Numbers = std::map<std::string, std::optional<double>>;  // by metric

Better better_of(const std::string& metric) {
  for (const char* more : {"finished", "utilization", "deadlines_met", "deadlines_share", "samples", "samples_per_s",
                           "steps", "ettr", "training_gpu_h"}) {
    if (metric == more) return Better::kHigher;
  }
  for (const char* none :
       {"jobs", "too_large", "with_deadline", "losses", "host_losses", "mean_hosts", "duration_s", "gpu_h"}) {
    if (metric == none) return Better::kNone;
  }
  return Better::kLower;
}

std::vector<Metric> known_metrics() {
  std::vector<Metric> known = metrics_of(sched::Workload{}, sched::Outcome{});
  for (Metric& metric : metrics_of(sched::RecoveryResult{})) {
    const bool twice = std::any_of(known.begin(), known.end(), [&](const Metric& m) { return m.name == metric.name; });
    if (!twice) known.push_back(std::move(metric));
  }
  return known;
}

// "cluster" or "recovery"; "" for a run of one scenario with `jobs`, or for what is no report at all.
std::string kind_of(const Json& json) {
  const auto kind = json.is_object() ? json.find("kind") : json.end();
  return json.is_object() && kind != json.end() && kind->is_string() ? kind->get<std::string>() : "";
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// "" = it can be read here.
std::string problem_of(const Json& json, const std::string& kind) {
  const auto version = json.find("schema_version");
  if (version == json.end() || *version != Summary::kSchemaVersion)
    return fmt::format("not a summary.json of version {}", Summary::kSchemaVersion);
  if (kind != "cluster" && kind != "recovery") return fmt::format("unknown kind of report \"{}\"", clipped(kind, 40));
  return "";
}

// The head of such a run in the form of the others; what tells two questions apart is the workload, not the policy.
Summary head_of(const Json& json, const std::string& kind) {
  Summary head;
  head.scenario = text_at(json, "scenario");
  head.scenario_digest = text_at(json, "scenario_digest");
  const auto seed = json.find("seed");
  if (seed != json.end() && seed->is_number_unsigned()) head.seed = seed->get<uint64_t>();
  head.strategy = text_at(json, "policy");
  head.runtime = kind;
  return head;
}

Numbers numbers_of(const Json& json) {
  Numbers numbers;
  const auto metrics = json.find("metrics");
  if (metrics == json.end() || !metrics->is_object()) return numbers;
  for (const auto& [name, value] : metrics->items())
    numbers[name] = value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  return numbers;
}

void add_rows(const std::vector<Numbers>& numbers, Comparison& comparison) {
  for (const Metric& metric : known_metrics()) {
    ComparisonRow row{"", metric.name, metric.label, metric.unit, metric.name == "too_large", better_of(metric.name),
                      {}, {}};
    bool any = false;
    for (const Numbers& run : numbers) {
      const auto found = run.find(metric.name);
      row.values.push_back(found == run.end() ? std::nullopt : found->second);
      any = any || row.values.back().has_value();
    }
    row.ratio = ratio_of(row.values);
    if (any) comparison.rows.push_back(std::move(row));
  }
}

// ---- output ---------------------------------------------------------------------------------------------------------

// Folder names differ at their end.
std::string shortened(const std::string& label) {
  const std::vector<std::string_view> letters = characters(label);
  if (letters.size() <= kNameColumns) return label;
  std::string tail = "…";
  for (size_t i = letters.size() - kNameColumns + 1; i < letters.size(); ++i) tail += letters[i];
  return tail;
}

// "+150 %"; "" where there is nothing to compare with.
std::string difference(std::optional<double> value, std::optional<double> from) {
  if (!value || !from || (*from == 0 && *value != 0)) return "";
  if (*from == *value) return *value == 0 ? "" : "=";
  const double percent = 100 * (*value / *from - 1);
  if (std::fabs(percent) < 0.05) return "≈";
  return fmt::format("{}{:.{}f} %", percent > 0 ? "+" : "−", std::fabs(percent), std::fabs(percent) < 10 ? 1 : 0);
}

// Index of the first best value of a row, of those that there are; nothing where all are equal.
std::optional<size_t> best_of(const ComparisonRow& row) {
  if (row.better == Better::kNone) return std::nullopt;
  std::optional<size_t> best;
  bool differ = false;
  for (size_t i = 0; i < row.values.size(); ++i) {
    if (!row.values[i]) continue;
    if (!best) {
      best = i;
      continue;
    }
    const double value = *row.values[i], known = *row.values[*best];
    differ = differ || value != known;
    if (row.better == Better::kHigher ? value > known : value < known) best = i;
  }
  return differ ? best : std::nullopt;
}

// A table for people: as text, or as Markdown.
class ComparisonTable {
 public:
  ComparisonTable(const Comparison& comparison, Against against) : comparison_(comparison), against_(against) {
    // A person would take the ratio or difference of two different things for a gain.
    if (!comparison.same_scenario) against_ = Against::kNothing;
    ratio_ = against_ == Against::kRatio && comparison.runs.size() == 2;
    headers_ = {"run"};
    for (size_t i = 0; i < comparison.labels.size(); ++i) {
      headers_.push_back(shortened(comparison.labels[i]) + ">");
      if (has_difference(i)) headers_.emplace_back("Δ>");
    }
    if (ratio_) headers_.emplace_back("ratio>");
    fill();
  }

  std::string text(const Screen& screen) const {
    Table table(headers_);
    if (std::find(headers_.begin(), headers_.end(), "Δ>") != headers_.end()) table.leave_out_first({"Δ"});
    for (const std::vector<std::string>& row : rows_) {
      if (row.empty()) {
        table.rule();
      } else {
        table.row(row);
      }
    }
    return table.text(screen);
  }

  std::string markdown() const {
    std::string text = "|", rule = "|";
    for (const std::string& header : headers_) {
      const bool right = header.ends_with('>');
      text += fmt::format(" {} |", right ? header.substr(0, header.size() - 1) : header);
      rule += right ? "---:|" : "---|";
    }
    text += "\n" + rule + "\n";
    for (const std::vector<std::string>& row : rows_) {
      if (row.empty()) continue;
      text += "|";
      for (const std::string& cell : row) text += " " + escaped(cell) + " |";
      text += "\n";
    }
    return text;
  }

 private:
  static std::string escaped(const std::string& cell) {
    std::string text;
    for (const char c : cell) text += c == '|' ? std::string("\\|") : std::string(1, c);
    return text;
  }

  bool has_difference(size_t run) const {
    return comparison_.runs.size() > 1 && (against_ == Against::kBest || (against_ == Against::kFirst && run > 0));
  }

  void fill() {
    const bool policies = comparison_.of_many_jobs;
    words(policies ? "policy" : "strategy", [](const Summary& run) { return run.strategy; });
    words("runtime", [](const Summary& run) { return run.runtime; });
    const std::string* job = nullptr;
    for (const ComparisonRow& row : comparison_.rows) {
      if (job == nullptr || *job != row.job) start_job(row.job);
      job = &row.job;
      const bool zero =
          std::all_of(row.values.begin(), row.values.end(), [](const auto& v) { return v.value_or(0) == 0; });
      if (!zero || !row.hidden_when_zero) add(row);
    }
  }

  template <class Function>
  void words(const std::string& title, Function word_of) {
    std::vector<std::string> cells = {title};
    for (size_t i = 0; i < comparison_.runs.size(); ++i) {
      cells.push_back(clipped(word_of(comparison_.runs[i]), kNameColumns));
      if (has_difference(i)) cells.emplace_back();
    }
    finish(std::move(cells), "");
  }

  void start_job(const std::string& name) {
    rows_.emplace_back();
    if (name.empty()) return;  // of the whole run
    words("job " + clipped(name, kNameColumns), [&](const Summary& run) {
      const JobSummary* job = find_job(run, name);
      return job == nullptr ? std::string("–") : job->state;
    });
  }

  void add(const ComparisonRow& row) {
    const std::string& unit = row.unit;
    const bool apart = unit == "GPU-h" || unit == "USD" || unit == "samples";
    std::vector<std::string> cells = {apart ? fmt::format("{} ({})", row.title, unit) : row.title};
    const std::optional<size_t> best =
        against_ == Against::kFirst || against_ == Against::kBest ? best_of(row) : std::nullopt;
    for (size_t i = 0; i < row.values.size(); ++i) {
      const std::optional<double>& value = row.values[i];
      cells.push_back((value ? shown(*value, apart ? "" : unit) : "–") +
                      (best && value == row.values[*best] ? " *" : ""));
      if (!has_difference(i)) continue;
      const size_t from = against_ == Against::kFirst ? 0 : best.value_or(i);
      cells.push_back(from == i ? "" : difference(value, row.values[from]));
    }
    finish(std::move(cells), row.ratio ? fmt::format("×{:.3g}", *row.ratio) : "");
  }

  void finish(std::vector<std::string> cells, std::string ratio) {
    if (ratio_) cells.push_back(std::move(ratio));
    rows_.push_back(std::move(cells));
  }

  const Comparison& comparison_;
  Against against_;
  bool ratio_ = false;
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
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

std::string shown(double value, const std::string& unit) {
  if (unit == "s") return format_seconds(value);
  if (unit == "B") return format_bytes(static_cast<int64_t>(value));
  if (unit == "samples/s") return rate(value);
  if (unit == "share") return fmt::format("{:.1f} %", value * 100);
  if (unit == "USD") return fmt::format("{:.2f}", value);
  return unit.empty() && std::floor(value) == value ? fmt::format("{:.0f}", value) : four_digits(value);
}

absl::StatusOr<Comparison> compare_runs(const std::vector<std::pair<std::string, std::string>>& label_and_json) {
  Comparison comparison;
  std::vector<Numbers> numbers;
  std::string workload;
  for (const auto& [label, text] : label_and_json) {
    const Json json = read_ordered_json(text).value_or(Json());
    const std::string kind = kind_of(json);
    comparison.labels.push_back(label);
    numbers.emplace_back();
    if (!kind.empty()) {
      if (const std::string problem = problem_of(json, kind); !problem.empty())
        return invalid(fmt::format("{}: {}", label, problem));
      comparison.runs.push_back(head_of(json, kind));
      numbers.back() = numbers_of(json);
    } else {
      absl::StatusOr<Summary> run = read_summary(text);
      if (!run.ok()) return invalid(fmt::format("{}: {}", label, message_of(run.status())));
      comparison.runs.push_back(*std::move(run));
    }
    const Summary &first = comparison.runs.front(), &last = comparison.runs.back();
    const std::string question = kind.empty() ? last.scenario_digest : last.scenario + text_at(json, "workload");
    if (comparison.runs.size() == 1) workload = question;
    comparison.same_scenario &= question == workload && last.seed == first.seed;
    comparison.of_many_jobs |= !kind.empty();
  }
  for (const std::string& job : job_names(comparison.runs)) add_rows(job, comparison);
  if (comparison.of_many_jobs) add_rows(numbers, comparison);
  comparison.prediction = prediction_of(comparison.runs);
  return comparison;
}

absl::StatusOr<std::string> compare_summaries(const std::vector<std::pair<std::string, std::string>>& label_and_json,
                                              const std::string& format, Against against, const Screen& screen) {
  if (label_and_json.empty()) return invalid("nothing to compare: name at least one report");
  SCALAI_ASSIGN_OR_RETURN(const Comparison comparison, compare_runs(label_and_json));
  if (format == "json") return comparison_json(comparison);
  if (format == "csv") return comparison_csv(comparison);
  const ComparisonTable table(comparison, against);
  if (format == "markdown") return table.markdown();
  if (format == "table") {
    const std::string prediction = comparison.prediction ? "\n" + prediction_table(*comparison.prediction, screen) : "";
    return table.text(screen) + note_on_scenarios(comparison) + prediction;
  }
  return invalid(fmt::format("unknown format \"{}\"; one of table, markdown, csv, json", clipped(format, 40)));
}

}  // namespace scalai::report
