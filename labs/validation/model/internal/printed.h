#pragma once
// Numbers as they are printed: how much the digits leave open.

#include <string>
#include <string_view>

#include "labs/validation/model/results.h"

namespace scalai::step::validation {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
// Differences below this share are rounding of our own arithmetic.
inline constexpr double kRoundOff = 1e-9;

// Half a unit of the last printed digit: 0.05 for "41.5", 0.5 for "137".
double half_digit(std::string_view text);

// The value, rounded to as many digits, reads as `text` (either way where it lies in the middle).
bool rounds_to(double value, const std::string& text);
// The same with the digits behind dropped.
bool cuts_to(double value, const std::string& text);

// Writes a prediction and its error into a row whose order is that of its values.
void conclude(RowResult& result, double predicted, double error);

}  // namespace scalai::step::validation
