#pragma once
// Horizontal lanes on one axis: bars that are sums of parts, or stretches of time (a Gantt chart).

#include <string>
#include <vector>

#include "ptc/report/chart/axis.h"
#include "ptc/report/chart/svg.h"

namespace scalai::report::chart {

struct Segment {
  double low = 0, high = 0;  // on the axis
  std::string css;           // class of its colour
  std::string label;         // written into it where it fits
  Note note;
  bool hatched = false;  // with the pattern "hatch" of the page over its colour
};

struct Marker {
  double at = 0;
  std::string css;
  std::string title;
};

struct Lane {
  std::string label;              // left of the lane; on narrow pictures above it
  std::vector<Segment> segments;  // those below a pixel are drawn one pixel wide
  std::vector<Marker> markers;    // vertical strokes, a bound for one
  std::string end;                // behind the last segment: the sum in words
};

struct Lanes {
  std::string id, title, description;
  Axis x;
  std::vector<Lane> lanes;
  double lane_height = 20;
};

// Adds a part to a lane whose segments follow one another from `lane_from`.
void append(Lane& lane, double length, std::string css, Note note, double lane_from = 0);

// The picture, `width` pixels wide; below 600 it is laid out for a phone.
std::string lanes_svg(const Lanes& chart, double width);

}  // namespace scalai::report::chart
