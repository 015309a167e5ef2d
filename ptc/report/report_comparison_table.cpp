// Several runs side by side as tables: for people, as Markdown, as CSV.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"
#include "ptc/report/internal/summary.h"
#include "ptc/report/report.h"

namespace scalai::report {
namespace {

// Folder names differ at their end.
std::string shortened(const std::string& label) {
  const std::vector<std::string_view> letters = characters(label);
  if (letters.size() <= kNameColumns) return label;
  std::string tail = "…";
  for (size_t i = letters.size() - kNameColumns + 1; i < letters.size(); ++i) tail += letters[i];
  return tail;
}

// "+150", "−3.2", "≈" below a twentieth of a percent.
std::string percent(double share) {
  const double value = 100 * share;
  if (std::fabs(value) < 0.05) return value == 0 ? "0" : "≈0";
  return fmt::format("{}{:.{}f}", value > 0 ? "+" : "−", std::fabs(value), std::fabs(value) < 10 ? 1 : 0);
}

// "+150 %"; "" where there is nothing to compare with.
std::string difference(std::optional<double> value, std::optional<double> from) {
  if (!value || !from || (*from == 0 && *value != 0)) return "";
  if (*from == *value) return *value == 0 ? "" : "=";
  const std::string text = percent(*value / *from - 1);
  return text == "≈0" ? "≈" : text + " %";
}

// Of runs with the same seeds: "+10 % (+5.1 to +12)", where the difference lies.
std::string difference(const PairedDifference& pairs) {
  const Spread& spread = pairs.spread;
  if (spread.low == 0 && spread.high == 0) return "=";
  const std::string low = percent(spread.low), high = percent(spread.high), middle = percent(spread.median);
  return middle + " %" + (low == high ? "" : fmt::format(" ({} to {})", low, high));
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
  // `deviations`: values with an interval have ± the distance to its further end.
  ComparisonTable(const Comparison& comparison, Against against, bool deviations = true)
      : comparison_(comparison), against_(against), deviations_(deviations) {
    // A person would take the ratio or difference of two different things for a gain.
    if (!comparison.same_question) against_ = Against::kNothing;
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
    return comparison_.runs.size() > 1 && against_ == Against::kFirst && run > 0;
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
    const std::optional<size_t> best = against_ == Against::kFirst ? best_of(row) : std::nullopt;
    for (size_t i = 0; i < row.values.size(); ++i) {
      const std::optional<double>& value = row.values[i];
      cells.push_back(
          (value ? shown(*value, apart ? "" : unit) : "–") +
          deviation(row.spreads.empty() || !deviations_ ? std::nullopt : row.spreads[i], apart ? "" : unit) +
          (best && value == row.values[*best] ? " *" : ""));
      if (!has_difference(i)) continue;
      const std::optional<PairedDifference> pairs = paired_difference(row, i, 0, /*relative=*/true);
      cells.push_back(pairs ? difference(*pairs) : difference(value, row.values[0]));
    }
    finish(std::move(cells), row.ratio ? fmt::format("×{:.3g}", *row.ratio) : "");
  }

  void finish(std::vector<std::string> cells, std::string ratio) {
    if (ratio_) cells.push_back(std::move(ratio));
    rows_.push_back(std::move(cells));
  }

  const Comparison& comparison_;
  Against against_;
  bool deviations_;
  bool ratio_ = false;
  std::vector<std::string> headers_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
};

// Columns of a table, by the rule below its head.
size_t columns_in(const std::string& table) {
  const size_t from = table.find('\n') + 1;
  const std::string rule = table.substr(from, table.find('\n', from) - from);
  size_t columns = 0;
  for (size_t i = 0; i < rule.size(); ++i) columns += rule[i] == '-' && (i == 0 || rule[i - 1] != '-') ? 1 : 0;
  return columns;
}

// On a narrow screen ± goes before Δ and before runs: differences say more than how far the values may be off.
std::string fitted(const Comparison& comparison, const CompareOptions& options) {
  const std::string text = ComparisonTable(comparison, options.against).text(options.screen);
  const std::string shorter = ComparisonTable(comparison, options.against, /*deviations=*/false).text(options.screen);
  if (columns_in(shorter) <= columns_in(text)) return text;
  return shorter + styled(options.screen, Style::kDim, "not shown: ±; --wide shows all") + "\n";
}

std::string note_on_scenarios(const Comparison& comparison) {
  if (comparison.same_scenario) return "";
  std::string note = comparison.same_question ? "note: the runs' scenarios differ in settings:"
                                              : "note: the runs are of different scenarios:";
  for (size_t i = 0; i < comparison.runs.size(); ++i) {
    const Summary& run = comparison.runs[i];
    note += fmt::format("{} {} is \"{}\" ({}, seed {})", i == 0 ? "" : ",", shortened(comparison.labels[i]),
                        run.scenario, run.scenario_digest.substr(0, 8), run.seed);
  }
  return printable_text(note) + "\n";
}

// Warnings and notes, a line each behind `bullet`.
std::string words_of_runs(const RunNotes& notes, const std::string& bullet) {
  std::string text;
  if (const std::string warning = notes.warning(); !warning.empty()) text = bullet + "warning: " + warning + "\n";
  for (const std::string& sentence : notes.sentences()) text += bullet + "note: " + sentence + "\n";
  return text;
}

std::string comparison_csv(const Comparison& comparison) {
  std::vector<std::string> headers = {"job", "metric", "unit"};
  const auto any_of_rows = [&](auto having) {
    return std::any_of(comparison.rows.begin(), comparison.rows.end(), having);
  };
  const bool intervals = any_of_rows([](const ComparisonRow& row) { return !row.spreads.empty(); });
  const bool seeds = any_of_rows([](const ComparisonRow& row) { return !row.by_seed.empty(); });
  const std::string kind = seeds ? "" : "_model";
  for (const std::string& label : comparison.labels) {
    headers.push_back(label + ">");
    if (intervals) headers.insert(headers.end(), {label + kind + "_low>", label + kind + "_high>"});
    if (seeds && &label != &comparison.labels.front())
      headers.insert(headers.end(), {label + "_diff>", label + "_diff_low>", label + "_diff_high>"});
  }
  const bool two = comparison.runs.size() == 2;
  if (two) headers.emplace_back("ratio");
  Table table(std::move(headers));
  for (const ComparisonRow& row : comparison.rows) {
    std::vector<std::string> cells = {row.job, row.metric, row.unit};
    for (size_t i = 0; i < row.values.size(); ++i) {
      cells.push_back(row.values[i] ? shortest(*row.values[i]) : "");
      if (!intervals) continue;
      const std::optional<Spread> spread = row.spreads.empty() ? std::nullopt : row.spreads[i];
      cells.push_back(spread ? shortest(spread->low) : "");
      cells.push_back(spread ? shortest(spread->high) : "");
      if (!seeds || i == 0) continue;
      const std::optional<PairedDifference> pairs = paired_difference(row, i, 0, /*relative=*/false);
      cells.push_back(pairs ? shortest(pairs->spread.median) : "");
      cells.push_back(pairs ? shortest(pairs->spread.low) : "");
      cells.push_back(pairs ? shortest(pairs->spread.high) : "");
    }
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

std::string deviation(const std::optional<Spread>& spread, const std::string& unit) {
  if (!spread || spread->low == spread->high) return "";
  return " ± " + shown(std::max(spread->high - spread->median, spread->median - spread->low), unit);
}

absl::StatusOr<std::string> compare_alternatives(const std::vector<Alternative>& alternatives,
                                                 const CompareOptions& options) {
  if (alternatives.empty()) return invalid("nothing to compare: name at least one report");
  SCALAI_ASSIGN_OR_RETURN(const Comparison comparison, compare_runs(alternatives));
  if (options.format == "json") return comparison_json(comparison);
  if (options.format == "csv") return comparison_csv(comparison);
  const std::string depends = comparison.depends_on_moment.empty() ? "" : "warning: " + comparison.depends_on_moment;
  if (options.format == "markdown") {
    const std::string words = words_of_runs(comparison.notes, "- ");
    return (depends.empty() ? "" : depends + "\n\n") + ComparisonTable(comparison, options.against).markdown() +
           (words.empty() ? "" : "\n" + words);
  }
  if (options.format == "table") {
    const std::string prediction =
        comparison.prediction ? "\n" + prediction_table(*comparison.prediction, options.screen) : "";
    const std::string first =
        depends.empty() ? "" : fmt::format("{}\n\n", fmt::join(wrapped(depends, options.screen.columns), "\n"));
    return first + fitted(comparison, options) + (options.varied ? "" : note_on_scenarios(comparison)) +
           words_of_runs(comparison.notes, "") + prediction;
  }
  return invalid(fmt::format("unknown format \"{}\"; one of table, markdown, csv, json", clipped(options.format, 40)));
}

absl::StatusOr<std::string> compare_summaries(const std::vector<std::pair<std::string, std::string>>& label_and_json,
                                              const std::string& format, Against against, const Screen& screen) {
  std::vector<Alternative> alternatives;
  for (const auto& [label, json] : label_and_json) alternatives.push_back({label, {json}});
  return compare_alternatives(alternatives, {.format = format, .against = against, .screen = screen});
}

}  // namespace scalai::report
