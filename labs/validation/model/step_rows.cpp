#include "labs/validation/model/step_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "labs/validation/model/internal/printed.h"
#include "labs/validation/model/units.h"
#include "ptc/cost/step/calibration.h"

namespace scalai::step::validation {
namespace {

std::string read_unit(RowReader& row, const std::string& column) {
  const std::string unit = row.text(column);
  const std::vector<std::string> known = step_units();
  if (unit.empty() || std::find(known.begin(), known.end(), unit) != known.end()) return unit;
  row.problem(column, fmt::format("unknown unit \"{}\"", unit), fmt::format("known: {}", fmt::join(known, ", ")));
  return "";
}

RowResult start(RowReader& row, const std::string& unit) {
  RowResult result{.label = row.text("label"), .unit = unit, .published_text = row.text("published")};
  result.published = row.number("published");
  if (row.ok() && result.published <= 0) row.problem("published", "must be more than 0");
  if ((unit == "days" || unit == "gpu_hours") && !row.has("tokens")) row.problem("tokens", "needed for this unit");
  return result;
}

// What is judged together.
std::string group_of(const TrainingRun& run) {
  return std::string(step_accuracy(run.host.gpu.name, run.training.precision.math, run.model.experts > 0).group);
}

// Errors with presets alone.
void add_presets(const TrainingRun& run, RowResult& result) {
  const auto error = [&](const Software& software) -> std::optional<double> {
    const PricedRun priced = price_by_preset(run, software);
    if (priced.step_s == 0) result.refused = priced.problem;
    return priced.step_s == 0 ? std::nullopt : std::optional<double>(priced.step_s / result.published_s - 1);
  };
  result.guessed_error = error(default_software(run.host.gpu.name, run.config.zero));
  result.refused.clear();
  if (!run.software.empty()) result.named_error = error(find_software(run.software).value());
}

}  // namespace

std::vector<std::string> step_columns() {
  std::vector<std::string> columns = run_columns();
  columns.insert(columns.end(), {"published", "unit", "fitted"});
  return columns;
}

std::vector<std::string> arithmetic_columns() {
  std::vector<std::string> columns = run_columns();
  columns.insert(columns.end(), {"published", "unit", "given", "given_unit"});
  return columns;
}

RowResult step_result(RowReader& row, const Models& models) {
  const TrainingRun published = read_run(row, models);
  const std::string unit = read_unit(row, "unit");
  RowResult result = start(row, unit);
  result.fitted = row.flag("fitted", false);
  if (!row.ok()) return result;

  const PricedRun priced = price(published);
  const TrainingRun& run = priced.run;
  result.held_out = !result.fitted && row.table().held_out(result.label);
  result.group = row.apart() ? kApart : group_of(run);
  result.assumed = priced.assumed;
  result.problem = priced.problem;
  result.machine = fmt::format("{} {}", run.host.gpu.name,
                               is_narrow(run.training.precision.math) ? run.training.precision.name : "16-bit");
  result.published_s = step_seconds(result.published, unit, run);
  result.model_peak_s = model_peak_seconds(run);
  result.hardware_peak_s = hardware_peak_seconds(run);
  result.rank_published = result.model_peak_s / result.published_s;
  if (priced.step_s == 0) return result;
  result.predicted_s = priced.step_s;
  result.predicted = in_unit(priced.step_s, unit, run);
  result.error = result.predicted_s / result.published_s - 1;
  result.rank_predicted = result.model_peak_s / result.predicted_s;
  result.exact = rounds_to(result.predicted, result.published_text);
  add_presets(published, result);
  return result;
}

RowResult arithmetic_result(RowReader& row, const Models& models) {
  const TrainingRun run = read_run(row, models);
  const std::string unit = read_unit(row, "unit");
  const std::string given_unit = read_unit(row, "given_unit");
  RowResult result = start(row, unit);
  const std::string given_text = row.text("given");
  const double given = row.number("given");
  if (row.ok() && given <= 0) row.problem("given", "must be more than 0");
  if (!row.ok()) return result;

  const auto converted = [&](double value) { return in_unit(step_seconds(value, given_unit, run), unit, run); };
  result.assumed = fmt::format("from {} {}", given_text, given_unit);
  result.predicted = converted(given);
  result.error = result.predicted / result.published - 1;
  // The given value is rounded too: any value that prints as it does may have been meant.
  const double half = half_digit(given_text);
  const double low = converted(given - half), high = converted(given + half);
  const double published_half = half_digit(result.published_text);
  result.exact = result.published + published_half >= std::min(low, high) * (1 - kRoundOff) &&
                 result.published - published_half <= std::max(low, high) * (1 + kRoundOff);
  result.rank_published = result.published;
  result.rank_predicted = result.predicted;
  return result;
}

}  // namespace scalai::step::validation
