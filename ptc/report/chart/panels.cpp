#include "ptc/report/chart/panels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/units.h"
#include "ptc/report/chart/internal/frame.h"

namespace scalai::report::chart {
namespace {

constexpr double kStrip = 20, kGap = 8, kTitle = 16, kPanelTitle = 24;

// Curves of thousands of points: what falls on the same tenth of a pixel as the point before is not written.
std::string curve(const Series& series, const Scale& x, const Scale& y) {
  std::string d, last;
  bool open = false;
  for (const Point& point : series.points) {
    if (std::isnan(point.y)) {
      open = false;
      continue;
    }
    const std::string px = pixels(x(point.x)), py = pixels(y(point.y));
    std::string piece = !open ? "M" + px + " " + py : series.steps ? "H" + px + "V" + py : "L" + px + " " + py;
    open = true;
    if (piece == last) continue;
    d += piece;
    last = std::move(piece);
  }
  return d;
}

// The same curve, closed along the axis.
std::string area(const Series& series, const Scale& x, const Scale& y) {
  if (series.points.empty()) return "";
  Series closed = series;
  for (Point& point : closed.points) point.y = std::isnan(point.y) ? 0 : point.y;
  return fmt::format("{}V{}H{}Z", curve(closed, x, y), pixels(y(0)), pixels(x(series.points.front().x)));
}

void draw_intervals(Svg& svg, const Series& series, const Scale& x, const Scale& y) {
  for (const Point& point : series.points) {
    if (std::isnan(point.y)) continue;
    svg.path("M" + pixels(x(point.x)) + " " + pixels(y(point.low)) + "V" + pixels(y(point.high)),
             "whisker " + series.css);
  }
}

void draw_series(Svg& svg, const Series& series, const Scale& x, const Scale& y) {
  if (series.area) svg.path(area(series, x, y), "area " + series.css);
  if (series.intervals) draw_intervals(svg, series, x, y);
  if (series.points.empty()) return;
  svg.path(curve(series, x, y), "line " + series.css,
           {.title = series.name, .series = series.name, .value = series.points.back().y});
  if (!series.dots) return;
  for (const Point& point : series.points) {
    if (std::isnan(point.y)) continue;
    svg.circle(x(point.x), y(point.y), 3, "dot " + series.css,
               {.title = series.name + ": " + shortest(point.y), .series = series.name, .value = point.y});
  }
}

void draw_y_axis(Svg& svg, const Ticks& ticks, const Scale& y, double left, double right) {
  for (const Tick& tick : ticks.ticks) {
    svg.line(left, y(tick.at), right, y(tick.at), "grid");
    svg.text(left - 6, y(tick.at) + 4, tick.label, "tick", Anchor::kEnd);
  }
}

void draw_x_names(Svg& svg, const Panels& chart, const Scale& x, double bottom, double width) {
  const double room = (width - x(0)) / std::max<double>(1, static_cast<double>(chart.x_labels.size()));
  for (size_t i = 0; i < chart.x_labels.size(); ++i) {
    svg.text(x(static_cast<double>(i)), bottom + 14, fitted(chart.x_labels[i], room), "tick", Anchor::kMiddle);
  }
  svg.text((x(chart.x.low) + x(chart.x.high)) / 2, bottom + 30, ticks_of(chart.x, 2).title, "tick", Anchor::kMiddle);
}

struct Layout {
  double left = 0, right = 0, top = 4;  // of the curves
};

// Strips have their labels in the margin where they fit, and above them where not.
double draw_strips(Svg& svg, const Panels& chart, const Scale& x, const Layout& layout, double y) {
  for (const Lane& strip : chart.strips) {
    svg.text(layout.left, y + 11, strip.label, "lab");
    y += strip.label.empty() ? 0 : kTitle;
    for (const Segment& segment : strip.segments) {
      const double left = x(segment.low), wide = std::max(x(segment.high) - left, 1.0);
      svg.rect({left, y, wide, kStrip}, "seg " + segment.css, segment.note);
      svg.text(left + 4, y + 14, fitted(segment.label, wide - 8), "in");
    }
    y += kStrip + kGap;
  }
  return y;
}

double height_of(const Panels& chart) {
  double height = 4;
  for (const Lane& strip : chart.strips) height += kStrip + kGap + (strip.label.empty() ? 0 : kTitle);
  for (const Panel& panel : chart.panels) height += kPanelTitle + panel.height + kGap;
  return height;
}

}  // namespace

std::string panels_svg(const Panels& chart, double width) {
  std::vector<Axis> axes;
  double left = 30;
  for (const Panel& panel : chart.panels) {
    axes.push_back(rounded(panel.y, 5));
    for (const Tick& tick : ticks_of(axes.back(), 5).ticks) left = std::max(left, text_width(tick.label) + 12);
  }
  const Layout layout{left, width - 10};
  const double bottom = height_of(chart);
  Svg svg(width, bottom + kAxisHeight);
  const double inset = chart.x_labels.empty() ? 0 : 30;
  const Scale x(chart.x, layout.left + inset, layout.right - inset);
  if (chart.x_labels.empty()) {
    draw_x_axis(svg, chart.x, x, layout.top, bottom, width);
  } else {
    draw_x_names(svg, chart, x, bottom, width);
  }
  double y = draw_strips(svg, chart, x, layout, layout.top);
  for (size_t i = 0; i < chart.panels.size(); ++i) {
    const Panel& panel = chart.panels[i];
    const Ticks ticks = ticks_of(axes[i], 5);
    svg.text(4, y + 11, ticks.title, "lab");
    const Scale scale(axes[i], y + kPanelTitle + panel.height, y + kPanelTitle);
    draw_y_axis(svg, ticks, scale, layout.left, layout.right);
    for (const Series& series : panel.series) draw_series(svg, series, x, scale);
    y += kPanelTitle + panel.height + kGap;
  }
  for (const Marker& marker : chart.marks) {
    svg.path("M" + pixels(x(marker.at)) + " " + pixels(layout.top) + "V" + pixels(bottom), "mark " + marker.css,
             {.title = marker.title});
  }
  return svg.finish(chart.id, chart.title, chart.description);
}

}  // namespace scalai::report::chart
