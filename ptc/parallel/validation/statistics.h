#pragma once
// How far predictions are from what was published. Errors are signed shares: 0.05 = predicted 5 % more than published.

#include <optional>
#include <span>

namespace scalai::parallel::validation {

struct Summary {
  int count = 0;
  double mape = 0;     // mean absolute error
  double largest = 0;  // the error that is farthest from 0, with its sign
  double bias = 0;     // mean error
};
Summary summarize(std::span<const double> errors);  // all 0 when there are none

// Kendall's tau-b of two rankings of the same rows (Kendall 1945): (concordant − discordant) pairs over the geometric mean
// of the pairs that each ranking tells apart; 1 = same order, −1 = reversed. Absent with fewer than two rows, or when one of
// the rankings has all rows alike. CHECK: as many values on both sides.
std::optional<double> kendall_tau(std::span<const double> a, std::span<const double> b);

// Pairs of rows whose published values differ by more than `share` of the larger one, and how many of those the
// predictions put the other way round, or on one place. CHECK: as above.
struct OrderedPairs {
  int pairs = 0;
  int reversed = 0;
};
OrderedPairs ordered_pairs(std::span<const double> published, std::span<const double> predicted, double share);

// The least mean absolute error that one share for all rows reaches, were it chosen knowing them all: utilisations u_i are
// published, a constant u predicts times that are u_i/u − 1 off. That is piecewise linear in 1/u, so some u_i is best.
// Absent with fewer than two rows. CHECK: all positive.
std::optional<double> best_constant_mape(std::span<const double> utilisations);

}  // namespace scalai::parallel::validation
