#pragma once
// Curves above each other over one x axis: what changes over time, distributions, and numbers by a parameter with their
// intervals. Strips above the curves name stretches; marks are moments.

#include <string>
#include <vector>

#include "ptc/report/chart/axis.h"
#include "ptc/report/chart/lanes.h"

namespace scalai::report::chart {

struct Point {
  double x = 0, y = 0;
  double low = 0, high = 0;  // interval of y, where the series has some
};

struct Series {
  std::string name;           // data-s of its path
  std::string css;            // class of its colour
  std::vector<Point> points;  // ascending in x; not-a-number in y interrupts the curve
  bool steps = false;         // a value holds until the next point; else straight lines
  bool area = false;          // filled down to 0
  bool intervals = false;
  bool dots = false;  // a dot a point, with its value under a pointer
};

struct Panel {
  Axis y;  // `high` is made round
  std::vector<Series> series;
  double height = 110;
};

struct Panels {
  std::string id, title, description;
  Axis x;
  std::vector<std::string> x_labels;  // of values 0, 1, … in place of numbers; "" = numbers
  std::vector<Lane> strips;
  std::vector<Panel> panels;
  std::vector<Marker> marks;  // over the whole height
};

std::string panels_svg(const Panels& chart, double width);

}  // namespace scalai::report::chart
