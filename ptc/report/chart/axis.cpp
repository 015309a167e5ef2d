#include "ptc/report/chart/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::report::chart {
namespace {

struct Scaled {
  double size = 1;  // base units in one
  std::string name;
};

// The largest unit of which the range has at least two (one for bytes and millions, whose units are far apart).
Scaled unit_of(const Axis& axis) {
  const double most = std::max(std::abs(axis.low), std::abs(axis.high));
  if (axis.unit == Unit::kPercent) return {0.01, "%"};
  if (axis.unit == Unit::kSeconds) {
    for (const Scaled& unit : {Scaled{86400, "d"}, Scaled{3600, "h"}, Scaled{60, "min"}, Scaled{1, "s"}})
      if (most >= 2 * unit.size) return unit;
    return {1e-3, "ms"};
  }
  if (axis.unit == Unit::kBytes) {
    for (const Scaled& unit :
         {Scaled{1e15, "PB"}, Scaled{1e12, "TB"}, Scaled{1e9, "GB"}, Scaled{1e6, "MB"}, Scaled{1e3, "kB"}})
      if (most >= unit.size) return unit;
    return {1, "B"};
  }
  if (most >= 1e6) return {1e6, axis.unit_name.empty() ? "million" : "million " + axis.unit_name};
  return {1, axis.unit_name};
}

// The smallest of 1, 2, 5 · 10^k that is not below `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

double step_of(const Axis& axis, double size, int most) {
  const double range = std::max(axis.high - axis.low, 1e-12 * size);
  double step = round_step(range / size / (most - 1));
  if (axis.unit == Unit::kCount || (axis.unit == Unit::kBytes && size == 1)) step = std::max(step, 1.0);
  return step;
}

}  // namespace

Ticks ticks_of(const Axis& axis, int most) {
  SCALAI_CHECK(most >= 2 && axis.high >= axis.low);
  const Scaled unit = unit_of(axis);
  const double step = step_of(axis, unit.size, most);
  Ticks result;
  result.title = unit.name.empty() || unit.name == axis.name ? axis.name : fmt::format("{}, {}", axis.name, unit.name);
  const double first = std::ceil(axis.low / unit.size / step - 1e-9),
               last = std::floor(axis.high / unit.size / step + 1e-9);
  for (double k = first; k <= last; ++k)
    result.ticks.push_back({k * step * unit.size, fmt::format("{:.6g}", k * step + 0.0)});
  return result;
}

Axis rounded(Axis axis, int most) {
  if (!(axis.high > axis.low)) axis.high = axis.low + 1;
  const Scaled unit = unit_of(axis);
  const double step = step_of(axis, unit.size, most) * unit.size;
  axis.high = std::ceil(axis.high / step - 1e-9) * step;
  axis.low = std::floor(axis.low / step + 1e-9) * step;
  return axis;
}

double Scale::operator()(double value) const {
  if (!(high_ > low_)) return from_;
  const double share = std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
  return from_ + share * (to_ - from_);
}

}  // namespace scalai::report::chart
