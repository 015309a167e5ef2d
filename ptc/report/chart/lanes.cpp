#include "ptc/report/chart/lanes.h"

#include <algorithm>

#include "ptc/report/chart/internal/frame.h"

namespace scalai::report::chart {
namespace {

void draw_segment(Svg& svg, const Scale& x, const Segment& segment, double y, double height) {
  const double left = x(segment.low), width = std::max(x(segment.high) - left, 1.0);
  svg.rect({left, y, width, height}, "seg " + segment.css, segment.note);
  if (segment.hatched) svg.rect({left, y, width, height}, "hatch");
  svg.text(left + 4, y + height / 2 + 4, fitted(segment.label, width - 8), "in");
}

void draw_lane(Svg& svg, const Scale& x, const Lane& lane, double y, double height) {
  double end = x(0);
  for (const Segment& segment : lane.segments) {
    draw_segment(svg, x, segment, y, height);
    end = std::max(end, x(segment.high));
  }
  for (const Marker& marker : lane.markers) {
    svg.path("M" + pixels(x(marker.at)) + " " + pixels(y - 3) + "V" + pixels(y + height + 3), "mark " + marker.css,
             {.title = marker.title});
    end = std::max(end, x(marker.at));
  }
  svg.text(end + 6, y + height / 2 + 4, lane.end);
}

double widest_end(const Lanes& chart) {
  double widest = 8;
  for (const Lane& lane : chart.lanes) widest = std::max(widest, lane.end.empty() ? 0 : text_width(lane.end) + 10);
  return widest;
}

}  // namespace

void append(Lane& lane, double length, std::string css, Note note, double lane_from) {
  const double low = lane.segments.empty() ? lane_from : lane.segments.back().high;
  lane.segments.push_back({.low = low, .high = low + length, .css = std::move(css), .note = std::move(note)});
}

std::string lanes_svg(const Lanes& chart, double width) {
  std::vector<std::string> labels;
  for (const Lane& lane : chart.lanes) labels.push_back(lane.label);
  const Gutter gutter(labels, width);
  const double above = gutter.above ? 15 : 0, pitch = chart.lane_height + above + 7;
  const double bottom = 4 + pitch * static_cast<double>(chart.lanes.size());
  Svg svg(width, bottom + kAxisHeight);
  const Scale x(chart.x, gutter.left, width - widest_end(chart));
  draw_x_axis(svg, chart.x, x, 4, bottom, width);
  for (size_t i = 0; i < chart.lanes.size(); ++i) {
    const double y = 4 + pitch * static_cast<double>(i);
    gutter.label(svg, chart.lanes[i].label, y, above + chart.lane_height);
    draw_lane(svg, x, chart.lanes[i], y + above, chart.lane_height);
  }
  return svg.finish(chart.id, chart.title, chart.description);
}

}  // namespace scalai::report::chart
