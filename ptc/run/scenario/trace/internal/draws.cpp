#include "ptc/run/scenario/trace/internal/draws.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace scalai::trace {
namespace {

// In (0, 1]: its logarithm is finite.
double positive(Random& random) { return 1 - random.uniform(); }

}  // namespace

double milliseconds(double seconds) { return std::round(seconds * 1e3) / 1e3; }

double exponential(Random& random, double mean_s) {
  return std::max(1e-3, milliseconds(-mean_s * std::log(positive(random))));
}

double weibull(Random& random, double mean_s, double shape) {
  const double scale = mean_s / std::tgamma(1 + 1 / shape);
  return std::max(1e-3, milliseconds(scale * std::pow(-std::log(positive(random)), 1 / shape)));
}

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(positive(random)));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

}  // namespace scalai::trace
