#pragma once
// Middle values and quantiles. Values need not be sorted; of no values there is no answer.

#include <optional>
#include <vector>

namespace scalai {

// Of an even number of values the mean of the middle two.
std::optional<double> median(std::vector<double> values);

// The value at place (n − 1) q in ascending order, counted from 0; between two places on the line through their values
// (Hyndman and Fan, definition 7). 0 <= q <= 1. quantile(v, 0.5) is median(v) up to rounding.
std::optional<double> quantile(std::vector<double> values, double q);

// The value at place floor(n q) in ascending order, counted from 0: always one of the values. 0 <= q < 1. Of an even
// number of values q = 0.5 gives the larger of the middle two.
std::optional<double> order_statistic(std::vector<double> values, double q);

// Median (the mean of the middle two for an even number) and its 95 % interval by order statistics, for any
// distribution: from the k-th smallest to the k-th largest of n, with the largest k such that P(Binomial(n, 1/2) < k)
// <= 2.5 %. Fewer than six values have no such k: the interval is from the smallest to the largest.
struct Spread {
  double median = 0, low = 0, high = 0;
};
Spread spread_of(std::vector<double> values);

}  // namespace scalai
