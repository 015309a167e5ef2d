#pragma once
// Values as shades in rows and columns: heat over time, and a matrix of senders and receivers.

#include <string>
#include <vector>

#include "ptc/report/chart/axis.h"
#include "ptc/report/chart/svg.h"

namespace scalai::report::chart {

// Shades of the style sheet: "h1" (weakest) to "h8"; a value of 0 is not drawn.
constexpr int kShades = 8;
int shade_of(double value, double highest);

struct HeatMap {
  std::string id, title, description;
  Axis x;  // time
  std::vector<std::string> rows;
  std::vector<std::vector<double>> values;  // by row, of equal intervals of x; all rows have as many
  double highest = 1;                       // the value of the darkest shade
  std::string (*words)(double) = nullptr;   // a value in words
};

struct Matrix {
  std::string id, title, description;
  std::string row_title, column_title;  // "from", "to"
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;  // by row and column
  std::string (*words)(double) = nullptr;
};

// Neighbouring intervals of one shade become one rectangle with their highest value.
std::string heat_svg(const HeatMap& chart, double width);
// The darkest shade is the largest value. Values are written into cells where they fit.
std::string matrix_svg(const Matrix& chart, double width);

}  // namespace scalai::report::chart
