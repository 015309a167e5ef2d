#include "labs/validation/model/internal/printed.h"

#include <cmath>
#include <cstdlib>

namespace scalai::step::validation {

double half_digit(std::string_view text) {
  const size_t point = text.find('.');
  const size_t decimals = point == std::string_view::npos ? 0 : text.size() - point - 1;
  return 0.5 * std::pow(10.0, -static_cast<double>(decimals));
}

bool rounds_to(double value, const std::string& text) {
  const double printed = std::strtod(text.c_str(), nullptr);
  return std::abs(value - printed) <= half_digit(text) + kRoundOff * std::abs(printed);
}

bool cuts_to(double value, const std::string& text) {
  const double printed = std::strtod(text.c_str(), nullptr);
  const double slack = kRoundOff * std::abs(printed);
  return value >= printed - slack && value < printed + 2 * half_digit(text);
}

void conclude(RowResult& result, double predicted, double error) {
  result.predicted = predicted;
  result.error = error;
  result.exact = rounds_to(predicted, result.published_text);
  result.rank_published = result.published;
  result.rank_predicted = predicted;
}

}  // namespace scalai::step::validation
