// Several runs side by side, of one job, of many jobs, or of recovery designs: rows of numbers.
// report_comparison_table.cpp shows them.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/jobs_report.h"
#include "ptc/report/report.h"

namespace scalai::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr bool always(const JobSummary&) { return true; }

struct Row {
  const char* name;
  const char* title;
  const char* unit;
  bool hidden_when_zero;
  double (*of)(const JobSummary&);
  Better better = Better::kNone;
  bool (*known)(const JobSummary&) = always;  // false: the report is too old for it
  std::optional<Spread> (*spread)(const JobSummary&) = nullptr;
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

double usd_per_msample(const JobSummary& job) { return *job.cost_usd / static_cast<double>(job.samples) * 1e6; }

double real(int64_t value) { return static_cast<double>(value); }

std::optional<Spread> moment_spread(const JobSummary& job) {
  if (!job.any_moment) return std::nullopt;
  return Spread{job.any_moment->expected_s, job.any_moment->low_s, job.any_moment->high_s};
}

constexpr Row kMetrics[] = {
    {"steps", "steps", "", false, [](const JobSummary& j) { return real(j.steps); }, Better::kHigher},
    {"samples", "samples", "", false, [](const JobSummary& j) { return real(j.samples); }, Better::kHigher},
    {"wall_s", "wall", "s", false, [](const JobSummary& j) { return j.wall_s; }, Better::kNone, always, wall_spread},
    {"training_s", "training", "s", false, [](const JobSummary& j) { return j.training_s; }},
    {"downtime_s", "downtime", "s", false, [](const JobSummary& j) { return j.downtime_s; }, Better::kLower, always,
     downtime_spread},
    {"downtime_any_moment_s", "  at any moment", "s", true,
     [](const JobSummary& j) { return j.any_moment->expected_s; }, Better::kLower,
     [](const JobSummary& j) { return j.any_moment.has_value(); }, moment_spread},
    downtime_row<&DowntimeSummary::reconfigurations_s>("downtime_reconfigurations_s", "  pauses"),
    downtime_row<&DowntimeSummary::waiting_s>("downtime_waiting_s", "  waiting"),
    downtime_row<&DowntimeSummary::run_again_s>("downtime_run_again_s", "  steps run again"),
    downtime_row<&DowntimeSummary::cut_off_s>("downtime_cut_off_s", "  steps cut off"),
    downtime_row<&DowntimeSummary::snapshots_s>("downtime_snapshots_s", "  snapshot stalls"),
    {"lost_steps", "lost steps", "", false, [](const JobSummary& j) { return real(j.lost_steps); }, Better::kLower},
    {"goodput_samples_per_s", "goodput", "samples/s", false,
     [](const JobSummary& j) { return j.goodput_samples_per_s; }, Better::kHigher},
    {"gpu_hours", "GPU hours", "h", false, [](const JobSummary& j) { return j.gpu_hours; }},
    {"cost_usd", "cost", "USD", true, [](const JobSummary& j) { return *j.cost_usd; }, Better::kLower,
     [](const JobSummary& j) { return j.cost_usd.has_value(); }},
    {"usd_per_msample", "cost of a million samples", "USD", true, usd_per_msample, Better::kLower,
     [](const JobSummary& j) { return j.cost_usd.has_value() && j.samples > 0; }},
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
    ComparisonRow row{job,           metric.name, metric.title, metric.unit, metric.hidden_when_zero,
                      metric.better, {},          {},           {},          {}};
    for (const Summary& run : comparison.runs) {
      const JobSummary* found = find_job(run, job);
      const bool known = found != nullptr && metric.known(*found);
      row.values.push_back(known ? std::optional(metric.of(*found)) : std::nullopt);
      row.spreads.push_back(known && metric.spread != nullptr ? metric.spread(*found) : std::nullopt);
    }
    const bool any = std::any_of(row.spreads.begin(), row.spreads.end(), [](const auto& s) { return s.has_value(); });
    if (!any) row.spreads.clear();
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
  std::vector<Metric> known = metrics_of(policy::Workload{}, policy::Outcome{});
  for (Metric& metric : metrics_of(policy::RecoveryResult{})) {
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
Summary head_of(const Json& json, const std::string& kind, const RunWords& words) {
  Summary head;
  head.scenario = text_at(json, "scenario");
  head.scenario_digest = text_at(json, "scenario_digest");
  const auto seed = json.find("seed");
  if (seed != json.end() && seed->is_number_unsigned()) head.seed = seed->get<uint64_t>();
  head.strategy = text_at(json, "policy");
  head.runtime = kind;
  head.rules = words.rules;
  head.notes = words.notes;
  head.policy_remarks = words.remarks;
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

// Metrics of the user come after those that each run has.
std::vector<Metric> all_metrics(const std::vector<Numbers>& numbers) {
  std::vector<Metric> all = known_metrics();
  for (const Numbers& run : numbers) {
    for (const auto& [name, value] : run) {
      const auto same = [&name = name](const Metric& metric) { return metric.name == name; };
      if (std::none_of(all.begin(), all.end(), same)) all.push_back({name, name, "", {}});
    }
  }
  return all;
}

void add_rows(const std::vector<Numbers>& numbers, Comparison& comparison) {
  const size_t known = known_metrics().size();
  const std::vector<Metric> all = all_metrics(numbers);
  for (size_t k = 0; k < all.size(); ++k) {
    const Metric& metric = all[k];
    const Better better = k < known ? better_of(metric.name) : Better::kNone;
    ComparisonRow row{"", metric.name, metric.label, metric.unit, metric.name == "too_large", better, {}, {}, {}, {}};
    bool any = false;
    for (const Numbers& run : numbers) {
      const auto found = run.find(metric.name);
      row.values.push_back(found == run.end() ? std::nullopt : found->second);
      any = any || row.values.back().has_value();
    }
    row.ratio = ratio_of(row.values);
    if (any || k >= known) comparison.rows.push_back(std::move(row));  // one of the user is shown even if nobody has it
  }
}

// The values from place `first` on, by the seeds of their runs; nothing where a seed is there twice.
std::map<uint64_t, double> values_by_seed(const ComparisonRow& row, const std::vector<Summary>& runs, size_t first,
                                          size_t count) {
  std::map<uint64_t, double> values;
  for (size_t k = first; k < first + count; ++k) {
    if (row.values[k] && !values.emplace(runs[k].seed, *row.values[k]).second) return {};
  }
  return values;
}

// Columns of several seeds become one: the median, and how far the seeds lie apart.
void fold(const std::vector<size_t>& seeds, Comparison& comparison) {
  for (ComparisonRow& row : comparison.rows) {
    for (size_t i = 0, first = 0; i < seeds.size(); first += seeds[i++])
      row.by_seed.push_back(values_by_seed(row, comparison.runs, first, seeds[i]));
  }
  std::vector<std::string> labels;
  std::vector<Summary> runs;
  for (size_t i = 0, first = 0; i < seeds.size(); first += seeds[i++]) {
    labels.push_back(std::move(comparison.labels[first]));
    runs.push_back(std::move(comparison.runs[first]));
  }
  comparison.labels = std::move(labels);
  comparison.runs = std::move(runs);
  for (ComparisonRow& row : comparison.rows) {
    std::vector<std::optional<double>> medians;
    row.spreads.clear();
    for (size_t i = 0, first = 0; i < seeds.size(); first += seeds[i++]) {
      std::vector<double> known;
      for (size_t k = first; k < first + seeds[i]; ++k)
        if (row.values[k]) known.push_back(*row.values[k]);
      row.spreads.push_back(known.empty() ? std::nullopt : std::optional(spread_of(std::move(known))));
      medians.push_back(row.spreads.back() ? std::optional(row.spreads.back()->median) : std::nullopt);
    }
    row.values = std::move(medians);
    row.ratio = ratio_of(row.values);
  }
}

}  // namespace

std::optional<Spread> wall_spread(const JobSummary& job) {
  if (!job.interval || !job.interval->wall_s) return std::nullopt;
  return Spread{job.wall_s, job.interval->wall_s->low, job.interval->wall_s->high};
}

std::optional<Spread> downtime_spread(const JobSummary& job) {
  if (!job.interval) return std::nullopt;
  return Spread{job.downtime_s, job.interval->downtime_s.low, job.interval->downtime_s.high};
}

std::optional<PairedDifference> paired_difference(const ComparisonRow& row, size_t run, size_t from, bool relative) {
  if (row.by_seed.empty() || run == from) return std::nullopt;
  std::vector<double> differences;
  for (const auto& [seed, value] : row.by_seed[run]) {
    const auto other = row.by_seed[from].find(seed);
    if (other == row.by_seed[from].end()) continue;
    if (relative && other->second == 0) return std::nullopt;
    differences.push_back(relative ? value / other->second - 1 : value - other->second);
  }
  if (differences.size() < 2) return std::nullopt;
  const size_t pairs = differences.size();
  return PairedDifference{pairs, spread_of(std::move(differences))};
}

absl::StatusOr<Comparison> compare_runs(const std::vector<Alternative>& alternatives) {
  Comparison comparison;
  std::vector<Numbers> numbers;
  std::vector<size_t> seeds;
  std::string first_question, first_digest;
  for (const auto& [label, summaries] : alternatives) {
    SCALAI_CHECK(!summaries.empty(), "an alternative is one run, or several seeds");
    const size_t before = comparison.runs.size();
    seeds.push_back(summaries.size());
    for (const std::string& text : summaries) {
      const Json json = read_ordered_json(text).value_or(Json());
      const std::string kind = kind_of(json);
      comparison.labels.push_back(label);
      numbers.emplace_back();
      if (!kind.empty()) {
        if (const std::string problem = problem_of(json, kind); !problem.empty())
          return invalid(fmt::format("{}: {}", label, problem));
        comparison.runs.push_back(head_of(json, kind, words_of_run(text)));
        numbers.back() = numbers_of(json);
      } else {
        absl::StatusOr<Summary> run = read_summary(text);
        if (!run.ok()) return invalid(fmt::format("{}: {}", label, message_of(run.status())));
        comparison.runs.push_back(*std::move(run));
      }
      const Summary &first = comparison.runs.front(), &last = comparison.runs.back();
      comparison.notes.add(seeds.size(), comparison.runs.size() - before, label,
                           {last.notes, last.policy_remarks, last.rules});
      std::vector<std::string>& all = comparison.runs[before].notes;  // of all seeds, which become one run
      for (const std::string& note : last.notes)
        if (std::find(all.begin(), all.end(), note) == all.end()) all.push_back(note);
      // The policy is part of the digest of a scenario of many jobs; the strategy of one job's is not.
      const std::string question = last.scenario + "\n" + (kind.empty() ? "" : text_at(json, "workload"));
      const std::string digest = kind.empty() ? last.scenario_digest : question;
      if (comparison.runs.size() == 1) {
        first_question = question;
        first_digest = digest;
      }
      const bool same_seed = summaries.size() > 1 || last.seed == first.seed;
      comparison.same_question &= question == first_question && same_seed;
      comparison.same_scenario &= comparison.same_question && digest == first_digest;
      comparison.of_many_jobs |= !kind.empty();
    }
  }
  for (const std::string& job : job_names(comparison.runs)) add_rows(job, comparison);
  if (comparison.of_many_jobs) add_rows(numbers, comparison);
  comparison.prediction = prediction_of(comparison.runs);
  if (comparison.runs.size() > alternatives.size())
    fold(seeds, comparison);
  else if (comparison.runs.size() > 1)
    comparison.depends_on_moment = moment_warning(comparison.labels, comparison.runs);
  return comparison;
}

}  // namespace scalai::report
