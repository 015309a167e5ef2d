#include "ptc/base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "ptc/base/status.h"

namespace scalai {

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<double> quantile(std::vector<double> values, double q) {
  SCALAI_CHECK(q >= 0 && q <= 1);
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const double place = static_cast<double>(values.size() - 1) * q;
  const auto below = static_cast<size_t>(place);
  if (below + 1 >= values.size()) return values.back();
  const double part = place - static_cast<double>(below);
  return values[below] + part * (values[below + 1] - values[below]);
}

std::optional<double> order_statistic(std::vector<double> values, double q) {
  SCALAI_CHECK(q >= 0 && q < 1);
  if (values.empty()) return std::nullopt;
  // Of 0.99 · n rounding may leave the last place.
  const auto place = static_cast<size_t>(std::floor(q * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::min(place, values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

Spread spread_of(std::vector<double> values) {
  SCALAI_CHECK(!values.empty(), "a spread of nothing");
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  Spread spread{.median = *median(values)};
  // term = P(Binomial(n, 1/2) = k), below = P(… < k + 1). Of more than a thousand values the first term is 0 in
  // doubles.
  double log_term = -static_cast<double>(n) * std::log(2.0), below = 0;
  size_t k = 0;
  for (size_t count = 0; count < n / 2; ++count) {
    below += std::exp(log_term);
    if (below > 0.025) break;
    k = count + 1;
    log_term += std::log(static_cast<double>(n - count)) - std::log(static_cast<double>(count + 1));
  }
  spread.low = values[k == 0 ? 0 : k - 1];
  spread.high = values[k == 0 ? n - 1 : n - k];
  return spread;
}

}  // namespace scalai
