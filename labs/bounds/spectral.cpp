#include "labs/bounds/spectral.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "labs/bounds/eigenvalues.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

double eigenvalue(const Spectrum& spectrum, int64_t index) {
  return index < std::ssize(spectrum.lower) ? spectrum.lower[static_cast<size_t>(index)] : spectrum.rest;
}

// Σ s_i·λ_i over `parts` parts of `operations`, the larger parts with the smaller eigenvalues.
double weighed(const Spectrum& spectrum, int64_t operations, int64_t parts) {
  double sum = 0;
  for (int64_t i = 0; i < parts; ++i)
    sum += static_cast<double>(operations / parts + (i < operations % parts ? 1 : 0)) * eigenvalue(spectrum, i);
  return sum;
}

// Beyond the listed eigenvalues a further segment adds ever less: some more are tried.
int64_t most_parts(const Spectrum& spectrum, int64_t operations) {
  return std::min(operations, spectrum.rest > 0 ? 4 * std::ssize(spectrum.lower) + 4 : std::ssize(spectrum.lower));
}

// Sums of rounded terms: what n additions of numbers up to `value` may be off.
double rounded_down(double value, int64_t additions) {
  return value * (1 - static_cast<double>(additions + 4) * 4 * std::numeric_limits<double>::epsilon());
}

}  // namespace

SpectralSum best_sum(const Spectrum& spectrum, int64_t operations, const Machine& machine) {
  const auto capacity = static_cast<double>(machine.capacity);
  const int64_t p = machine.processors;
  SCALAI_CHECK(machine.capacity >= 0 && p >= 1 && (p == 1 || !machine.repeated));
  const bool sum_of_all = machine.even_split && p > 1;
  const int64_t own = sum_of_all ? operations / p * p : (operations + p - 1) / p;
  const int64_t step = sum_of_all ? p : 1;
  SpectralSum best;
  const int64_t most = std::max(step, std::min(most_parts(spectrum, operations), own));  // k = 1 in any case
  for (int64_t parts = step; parts <= most; parts += step) {
    const int64_t segments = parts / step;
    const auto ends = static_cast<double>(machine.repeated ? segments : segments - 1);
    const int64_t counted = sum_of_all ? operations / parts * parts : own;
    const double transfers = rounded_down(weighed(spectrum, counted, parts), parts) -
                             2 * capacity * ends * static_cast<double>(sum_of_all ? p : 1);
    if (parts == step || transfers > best.transfers) best = {transfers, static_cast<int>(segments)};
  }
  return best;
}

absl::StatusOr<SpectralBound> spectral_bound(const ComputationGraph& graph, const Machine& given, Expansion expansion) {
  Machine machine = given;
  machine.capacity = std::min(given.capacity, graph.total());  // more is of no use
  const bool one = machine.processors == 1;
  const WeightedGraph weighted = expand(graph, expansion, one ? 0.5 : 1);
  SCALAI_ASSIGN_OR_RETURN(const Spectrum spectrum, smallest_eigenvalues(weighted, kEigenvalues));
  const SpectralSum sum = best_sum(spectrum, graph.operations(), machine);
  const auto fixed = one ? static_cast<double>(graph.used_inputs() + graph.results()) : 0;
  return SpectralBound{std::max<int64_t>(0, static_cast<int64_t>(std::floor(sum.transfers + fixed))), sum.segments,
                       expansion};
}

absl::StatusOr<SpectralBound> spectral_bound(const ComputationGraph& graph, const Machine& machine) {
  SCALAI_ASSIGN_OR_RETURN(SpectralBound star, spectral_bound(graph, machine, Expansion::kStar));
  SCALAI_ASSIGN_OR_RETURN(SpectralBound clique, spectral_bound(graph, machine, Expansion::kClique));
  return clique.transfers > star.transfers ? clique : star;
}

}  // namespace scalai::bounds
