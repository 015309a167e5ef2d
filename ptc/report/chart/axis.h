#pragma once
// Axes: round ticks in the unit that suits the range, and the place of a value. Pure functions; any thread may call.

#include <string>
#include <vector>

namespace scalai::report::chart {

enum class Unit { kPlain, kCount, kSeconds, kBytes, kPercent };  // kPercent: of shares, 1 = 100 %

struct Axis {
  std::string name;  // "time", "GPUs"
  Unit unit = Unit::kPlain;
  std::string unit_name;     // of kPlain and kCount: "samples/s"; "" = none
  double low = 0, high = 1;  // the range of values in base units (s, B, share)
};

struct Tick {
  double at = 0;      // in base units
  std::string label;  // in the unit of the axis
};

struct Ticks {
  std::vector<Tick> ticks;  // ascending, within the axis
  std::string title;        // "time, h"; the unit is always there, unless there is none
};

// At most `most` ticks at multiples of 1, 2 or 5 · 10^k of the unit: ms, s, min, h, d; B, kB … PB; %. `most` >= 2.
Ticks ticks_of(const Axis& axis, int most);

// The axis with both ends at ticks; an empty range becomes [low, low + 1].
Axis rounded(Axis axis, int most);

// Pixels of values: `low` at `from`, `high` at `to`. Values outside are moved to the ends.
class Scale {
 public:
  Scale(const Axis& axis, double from, double to) : low_(axis.low), high_(axis.high), from_(from), to_(to) {}
  double operator()(double value) const;

 private:
  double low_, high_, from_, to_;
};

}  // namespace scalai::report::chart
