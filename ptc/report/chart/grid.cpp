#include "ptc/report/chart/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/report/chart/internal/frame.h"

namespace scalai::report::chart {
namespace {

constexpr double kRow = 15;

void draw_row(Svg& svg, const HeatMap& chart, size_t row, const Scale& x, double y) {
  const std::vector<double>& values = chart.values[row];
  const double step = (chart.x.high - chart.x.low) / static_cast<double>(values.size());
  for (size_t begin = 0, end = 0; begin < values.size(); begin = end) {
    const int shade = shade_of(values[begin], chart.highest);
    double most = 0;
    for (end = begin; end < values.size() && shade_of(values[end], chart.highest) == shade; ++end)
      most = std::max(most, values[end]);
    if (shade == 0) continue;
    const double left = x(chart.x.low + step * static_cast<double>(begin));
    const double right = x(chart.x.low + step * static_cast<double>(end));
    svg.rect({left, y, right - left, kRow - 1}, fmt::format("h{}", shade),
             {.title = fmt::format("{}: up to {}", chart.rows[row], chart.words(most)),
              .series = chart.rows[row],
              .value = most});
  }
}

double largest(const std::vector<std::vector<double>>& values) {
  double most = 0;
  for (const std::vector<double>& row : values)
    for (const double value : row) most = std::max(most, value);
  return most;
}

struct CellSize {
  double width = 0, height = 0;
};

void draw_cells(Svg& svg, const Matrix& chart, double left, double top, CellSize size) {
  const double most = largest(chart.values);
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    for (size_t c = 0; c < chart.columns.size(); ++c) {
      const double value = chart.values[r][c];
      const double x = left + size.width * static_cast<double>(c), y = top + size.height * static_cast<double>(r);
      const std::string words = chart.words(value);
      svg.rect({x, y, size.width - 1, size.height - 1}, fmt::format("cell h{}", shade_of(value, most)),
               {.title = fmt::format("{} → {}: {}", chart.rows[r], chart.columns[c], words),
                .series = chart.rows[r] + " " + chart.columns[c],
                .value = value});
      if (value > 0 && size.height > 13 && text_width(words) < size.width)
        svg.text(x + size.width / 2, y + size.height / 2 + 4, words, "cellt", Anchor::kMiddle);
    }
  }
}

}  // namespace

int shade_of(double value, double highest) {
  if (!(value > 0) || !(highest > 0)) return 0;
  return std::clamp(static_cast<int>(std::ceil(kShades * value / highest - 1e-9)), 1, kShades);
}

std::string heat_svg(const HeatMap& chart, double width) {
  double widest = 0;
  for (const std::string& row : chart.rows) widest = std::max(widest, text_width(row));
  const double left = std::min(widest, 0.35 * width) + 12;
  const double bottom = 4 + kRow * static_cast<double>(chart.rows.size());
  Svg svg(width, bottom + kAxisHeight);
  const Scale x(chart.x, left, width - 10);
  draw_x_axis(svg, chart.x, x, 4, bottom, width);
  for (size_t row = 0; row < chart.rows.size(); ++row) {
    const double y = 4 + kRow * static_cast<double>(row);
    svg.text(left - 8, y + 11, fitted(chart.rows[row], left - 8), "lab", Anchor::kEnd);
    draw_row(svg, chart, row, x, y);
  }
  return svg.finish(chart.id, chart.title, chart.description);
}

std::string matrix_svg(const Matrix& chart, double width) {
  double widest = text_width(chart.row_title);
  for (const std::string& row : chart.rows) widest = std::max(widest, text_width(row));
  const double left = std::min(widest, 0.3 * width) + 12, top = 40;
  const double room = (width - left - 4) / static_cast<double>(chart.columns.size());
  const CellSize size{std::min(room, 90.0), std::min(std::max(room, 12.0), 26.0)};
  const double height = top + size.height * static_cast<double>(chart.rows.size()) + 4;
  Svg svg(width, height);
  svg.text(left, 13, chart.column_title, "tick");
  svg.text(4, top - 8, chart.row_title, "tick");
  double free_from = 0;
  for (size_t c = 0; c < chart.columns.size(); ++c) {
    const double middle = left + size.width * (static_cast<double>(c) + 0.5), half = text_width(chart.columns[c]) / 2;
    if (middle - half < free_from || middle + half > width) continue;
    svg.text(middle, top - 8, chart.columns[c], "lab", Anchor::kMiddle);
    free_from = middle + half + 4;
  }
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    const double y = top + size.height * (static_cast<double>(r) + 0.5) + 4;
    svg.text(left - 8, y, fitted(chart.rows[r], left - 8), "lab", Anchor::kEnd);
  }
  draw_cells(svg, chart, left, top, size);
  return svg.finish(chart.id, chart.title, chart.description);
}

}  // namespace scalai::report::chart
