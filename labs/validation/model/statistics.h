#pragma once
// Distance of predictions from published values. Errors are signed shares: 0.05 = predicted 5 % above published. Pure
// functions.

#include <optional>
#include <span>
#include <string_view>

namespace scalai::step::validation {

struct Summary {
  int count = 0;
  double mape = 0;     // mean absolute error
  double largest = 0;  // the error with the largest absolute value, with its sign
  double bias = 0;     // mean error
};
Summary summarize(std::span<const double> errors);  // all 0 without errors

// Of sources of numbers, the interval that holds nine in ten of what a further source would say.
//
// The 5 % and 95 % quantiles of all ratios, with each source weighed by the root of its rows; logarithms of both ends
// times 1 + 1.5 / sources, because few sources know little of others. A test leaves out each source in turn.
struct RatioOfSource {
  std::string_view source;
  double ratio = 1;  // published / predicted
};
struct RatioInterval {
  double low = 1, high = 1;
};
RatioInterval interval_of(std::span<const RatioOfSource> ratios);  // 1 to 1 without ratios

// Kendall's tau-b of two rankings of the same rows (Kendall 1945): (concordant − discordant) pairs over the geometric
// mean of the numbers of pairs that each ranking separates; 1 = same order, −1 = reversed. nullopt: fewer than two
// rows, or a ranking with all rows equal. CHECK: equal sizes.
std::optional<double> kendall_tau(std::span<const double> a, std::span<const double> b);

// Pairs of rows whose published values differ by more than `share` of the larger one, and the number of these pairs
// that the predictions reverse or tie. CHECK: equal sizes.
struct OrderedPairs {
  int pairs = 0;
  int reversed = 0;
};
OrderedPairs ordered_pairs(std::span<const double> published, std::span<const double> predicted, double share);

// The least mean absolute error of one constant share for all rows, chosen with knowledge of all: utilisations u_i are
// published, and a constant u predicts times with errors u_i/u − 1. This is piecewise linear in 1/u, so some u_i is
// optimal. nullopt: fewer than two rows. CHECK: all positive.
std::optional<double> best_constant_mape(std::span<const double> utilisations);

}  // namespace scalai::step::validation
