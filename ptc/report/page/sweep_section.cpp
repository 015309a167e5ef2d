// Pages of a sweep: a picture a metric (internal/jobs_data.h).

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/report/page/internal/jobs_data.h"

namespace scalai::report {
namespace {

constexpr size_t kMostLines = 8;

struct SweepColumns {
  std::vector<std::string> axes, metrics;
};

// Axes come first, named by their paths in the scenario; metrics have names of their own, or are JSON pointers.
SweepColumns columns_in(const CsvRows& rows) {
  const std::vector<std::string> known = metric_names();
  SweepColumns columns;
  for (const std::string& name : rows.header()) {
    if (name == "status" || name.ends_with("_low") || name.ends_with("_high")) continue;
    if (rows.has(name + "_low") && name.ends_with("_diff")) continue;
    const bool metric = name.starts_with('/') || std::find(known.begin(), known.end(), name) != known.end();
    (metric ? columns.metrics : columns.axes).push_back(name);
  }
  return columns;
}

size_t place_in(std::vector<std::string>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

// The first axis along the picture, a line for each combination of the others.
struct SweepPoints {
  std::vector<std::string> x, lines;
  std::vector<std::pair<size_t, size_t>> of_row;  // x and line of each row
};

SweepPoints points_in(const CsvRows& rows, const SweepColumns& columns) {
  SweepPoints points;
  for (size_t row = 0; row < rows.size(); ++row) {
    std::string line;
    for (size_t a = 1; a < columns.axes.size(); ++a) {
      const std::string& path = columns.axes[a];
      line += fmt::format("{}{}={}", line.empty() ? "" : ", ", path.substr(path.rfind('.') + 1), rows.text(row, path));
    }
    const std::string x = columns.axes.empty() ? "the scenario" : rows.text(row, columns.axes[0]);
    const size_t place = place_in(points.x, x);
    points.of_row.emplace_back(place, place_in(points.lines, line));
  }
  return points;
}

// Names, as of policies, have no order that a line could follow.
bool are_names(const std::vector<std::string>& values) {
  return std::any_of(values.begin(), values.end(), [](const std::string& value) {
    return value.empty() || value.find_first_of("0123456789.-") != 0;
  });
}

// Dots without a line between them.
std::vector<chart::Point> apart(const std::vector<chart::Point>& points) {
  std::vector<chart::Point> result;
  for (const chart::Point& point : points) {
    result.push_back(point);
    result.push_back({point.x, std::numeric_limits<double>::quiet_NaN()});
  }
  return result;
}

// A metric in words and unit, of those that have some.
Metric named(const std::string& name) {
  for (const auto& metrics : {metrics_of(policy::Workload{}, policy::Outcome{}), metrics_of(policy::RecoveryResult{})})
    for (const Metric& metric : metrics)
      if (metric.name == name) return metric;
  return {.name = name, .label = name, .unit = name.ends_with("_s") && !name.ends_with("_per_s") ? "s" : ""};
}

chart::Axis axis_of(const Metric& metric) {
  if (metric.unit == "s") return {metric.label, chart::Unit::kSeconds, "", 0, 0};
  if (metric.unit == "share") return {metric.label, chart::Unit::kPercent, "", 0, 0};
  return {metric.label, chart::Unit::kPlain, metric.unit == "count" || metric.unit == "jobs" ? "" : metric.unit, 0, 0};
}

// No row has this metric: no prices, say.
bool empty(const CsvRows& rows, const std::string& metric) {
  for (size_t row = 0; row < rows.size(); ++row)
    if (rows.number(row, metric)) return false;
  return true;
}

Figure figure_of(const CsvRows& rows, const SweepColumns& columns, const SweepPoints& points, const std::string& name) {
  Metric metric = named(name);
  const std::string interval = name + (rows.has(name + "_low") ? "" : "_model");
  const bool intervals = rows.has(interval + "_low");
  Figure figure{.title = metric.label};
  chart::Panel panel{.y = axis_of(metric), .height = 150};
  double lowest = std::numeric_limits<double>::infinity();
  figure.numbers.headers = {columns.axes.empty() ? "" : columns.axes[0], "", "value>", "interval>"};
  for (size_t line = 0; line < std::min(points.lines.size(), kMostLines); ++line) {
    chart::Series series{.name = points.lines[line].empty() ? metric.label : points.lines[line],
                         .css = fmt::format("k{}", line % 8 + 1),
                         .points = std::vector<chart::Point>(points.x.size()),
                         .intervals = intervals,
                         .dots = true};
    for (size_t x = 0; x < points.x.size(); ++x)
      series.points[x] = {static_cast<double>(x), std::numeric_limits<double>::quiet_NaN()};
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto [x, of_line] = points.of_row[row];
      const auto value = rows.number(row, name);
      if (of_line != line || !value) continue;
      const double low = rows.number(row, interval + "_low").value_or(*value),
                   high = rows.number(row, interval + "_high").value_or(*value);
      series.points[x] = {static_cast<double>(x), *value, low, high};
      panel.y.high = std::max({panel.y.high, *value, high});
      lowest = std::min({lowest, *value, low});
      const auto words = [&](double number) {
        metric.value = number;
        return shown(metric);
      };
      figure.numbers.rows.push_back(
          {points.x[x], points.lines[line], words(*value), intervals ? words(low) + " to " + words(high) : ""});
    }
    const auto unknown = [](const chart::Point& point) { return std::isnan(point.y); };
    if (std::all_of(series.points.begin(), series.points.end(), unknown)) continue;
    if (are_names(points.x)) series.points = apart(series.points);
    if (points.lines.size() > 1) figure.legend.push_back({series.css, series.name, true});
    panel.series.push_back(std::move(series));
  }
  // Values far from 0 would look alike.
  if (lowest < 0 || lowest > 0.5 * panel.y.high) panel.y.low = lowest;
  if (rows.has(name + "_model_low")) figure.caption = "Strokes: how far the models behind it may be off.";
  if (points.lines.size() > kMostLines)
    figure.caption +=
        fmt::format("{}The first {} of {} lines.", figure.caption.empty() ? "" : " ", kMostLines, points.lines.size());
  chart::Panels chart{.title = figure.title,
                      .description = "By value of the first swept field; the table below has the numbers.",
                      .x = {columns.axes.empty() ? "" : columns.axes[0], chart::Unit::kPlain, "", 0,
                            std::max(1.0, static_cast<double>(points.x.size()) - 1)},
                      .x_labels = points.x,
                      .panels = {std::move(panel)}};
  figure.draw = drawing(chart, chart::panels_svg);
  return figure;
}

}  // namespace

absl::Status add_sweep(Document& page, const std::string& label, const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const CsvRows rows, CsvRows::read(path));
  if (!rows.has("status"))
    return invalid(fmt::format("{}: no table of `scalai sweep`: it has no column \"status\"", path));
  const SweepColumns columns = columns_in(rows);
  const SweepPoints points = points_in(rows, columns);
  page.heading(2, "Sweep " + label);
  std::vector<std::string> failed;
  for (size_t row = 0; row < rows.size(); ++row)
    if (rows.text(row, "status") != "ok")
      failed.push_back(fmt::format("Row {}: {}", row + 1, rows.text(row, "status")));
  page.paragraph(fmt::format("{} points over {}{}.", rows.size(),
                             columns.axes.empty() ? "nothing" : fmt::format("{}", fmt::join(columns.axes, ", ")),
                             columns.metrics.empty() || !rows.has(columns.metrics[0] + "_low")
                                 ? ""
                                 : "; medians with their 95 % intervals by order statistics (strokes)"),
                 "lead");
  if (!failed.empty()) page.list(failed, "notes");
  std::vector<std::string> none;
  for (const std::string& metric : columns.metrics) {
    if (empty(rows, metric)) {
      none.push_back(metric);
    } else {
      page.figure(figure_of(rows, columns, points, metric));
    }
  }
  if (!none.empty()) page.paragraph(fmt::format("Without values: {}.", fmt::join(none, ", ")), "sub");
  return absl::OkStatus();
}

}  // namespace scalai::report
