#pragma once
// What pictures share: the column of labels, and the axis below.

#include <string>
#include <vector>

#include "ptc/report/chart/axis.h"
#include "ptc/report/chart/svg.h"

namespace scalai::report::chart {

constexpr double kAxisHeight = 36;    // ticks and the title of the axis, pixels
constexpr double kNarrowBelow = 600;  // pictures below this width are for phones

inline bool narrow(double width) { return width < kNarrowBelow; }

// Labels of lanes or rows: left of them, or above them on a narrow picture.
struct Gutter {
  Gutter(const std::vector<std::string>& labels, double width);
  // `height`: of the lane and, where labels are above, of the label.
  void label(Svg& svg, const std::string& text, double y, double height) const;
  bool above = false;
  double left = 4;  // where the lanes begin
};

// Lines of the grid from `top` to `bottom`, labels and the title below.
void draw_x_axis(Svg& svg, const Axis& axis, const Scale& x, double top, double bottom, double width);

}  // namespace scalai::report::chart
