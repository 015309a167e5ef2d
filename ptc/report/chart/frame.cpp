// What pictures share (internal/frame.h).

#include <algorithm>

#include "ptc/report/chart/internal/frame.h"

namespace scalai::report::chart {

Gutter::Gutter(const std::vector<std::string>& labels, double width) {
  double widest = 0;
  for (const std::string& label : labels) widest = std::max(widest, text_width(label));
  above = narrow(width) && widest > 60;
  left = above ? 4 : std::min(widest, 0.3 * width) + 12;
}

void Gutter::label(Svg& svg, const std::string& text, double y, double height) const {
  if (above) {
    svg.text(left, y + 11, text, "lab");
  } else {
    svg.text(left - 8, y + height / 2 + 4, fitted(text, left - 8), "lab", Anchor::kEnd);
  }
}

void draw_x_axis(Svg& svg, const Axis& axis, const Scale& x, double top, double bottom, double width) {
  const Ticks ticks = ticks_of(axis, narrow(width) ? 5 : 9);
  double free_from = -1;
  for (const Tick& tick : ticks.ticks) {
    const double at = x(tick.at), half = text_width(tick.label) / 2;
    svg.line(at, top, at, bottom, "grid");
    if (at - half < free_from) continue;  // labels do not run into each other
    svg.text(std::clamp(at, half, width - half), bottom + 14, tick.label, "tick", Anchor::kMiddle);
    free_from = at + half + 6;
  }
  svg.text((x(axis.low) + x(axis.high)) / 2, bottom + 30, ticks.title, "tick", Anchor::kMiddle);
}

}  // namespace scalai::report::chart
