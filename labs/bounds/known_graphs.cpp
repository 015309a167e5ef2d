#include "labs/bounds/known_graphs.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

constexpr int kMostLevels = 20;

}  // namespace

ComputationGraph butterfly(int levels) {
  SCALAI_CHECK(levels >= 0 && levels <= kMostLevels, std::to_string(levels));
  ComputationGraph graph;
  const int32_t columns = int32_t{1} << levels;
  for (int32_t column = 0; column < columns; ++column) graph.computed(1, {});
  for (int level = 1; level <= levels; ++level) {
    const int32_t above = (level - 1) * columns;
    for (int32_t column = 0; column < columns; ++column) {
      const int32_t operands[] = {above + column, above + (column ^ (int32_t{1} << (level - 1)))};
      graph.computed(1, operands);
    }
  }
  return graph;
}

ComputationGraph bellman_held_karp(int cities) {
  SCALAI_CHECK(cities >= 0 && cities <= kMostLevels, std::to_string(cities));
  ComputationGraph graph;
  for (int32_t subset = 0; subset < int32_t{1} << cities; ++subset) {
    std::vector<int32_t> operands;
    for (int city = 0; city < cities; ++city) {
      const int32_t bit = int32_t{1} << city;
      if (subset & bit) operands.push_back(subset ^ bit);
    }
    graph.computed(1, operands);
  }
  return graph;
}

ComputationGraph matrix_product(int n) {
  SCALAI_CHECK(n >= 1 && n <= 64, std::to_string(n));
  ComputationGraph graph;
  for (int i = 0; i < 2 * n * n; ++i) graph.computed(1, {});
  for (int32_t row = 0; row < n; ++row) {
    for (int32_t column = 0; column < n; ++column) {
      int32_t sum = -1;
      for (int32_t k = 0; k < n; ++k) {
        const int32_t factors[] = {row * n + k, n * n + k * n + column};
        const int32_t product = graph.computed(1, factors);
        const int32_t addends[] = {sum, product};
        sum = k == 0 ? product : graph.computed(1, addends);
      }
    }
  }
  return graph;
}

ComputationGraph random_graph(int values, double probability, int most_operands, uint64_t seed) {
  SCALAI_CHECK(values >= 1, std::to_string(values));
  Random random(seed);
  ComputationGraph graph;
  for (int32_t value = 0; value < values; ++value) {
    std::vector<int32_t> operands;
    for (int32_t earlier = 0; earlier < value; ++earlier) {
      if (random.uniform() < probability) operands.push_back(earlier);
    }
    while (std::ssize(operands) > most_operands) operands.erase(operands.begin() + random.below(std::ssize(operands)));
    graph.computed(1, operands);
  }
  return graph;
}

std::vector<double> butterfly_spectrum(int levels) {
  SCALAI_CHECK(levels >= 0 && levels <= kMostLevels, std::to_string(levels));
  std::vector<double> spectrum;
  const auto add = [&](int64_t times, double angle) {
    spectrum.insert(spectrum.end(), static_cast<size_t>(times), 4 - 4 * std::cos(std::numbers::pi * angle));
  };
  for (int j = 0; j <= levels; ++j) add(1, j / (levels + 1.0));
  for (int m = 1; m <= levels; ++m) {
    for (int j = 0; j < m; ++j) add(int64_t{1} << (levels - m + 1), (2 * j + 1) / (2 * m + 1.0));
    if (m == levels) break;
    for (int j = 1; j <= m; ++j) add((levels - m) * (int64_t{1} << (levels - m - 1)), j / (m + 1.0));
  }
  std::sort(spectrum.begin(), spectrum.end());
  return spectrum;
}

std::vector<double> hypercube_spectrum(int cities) {
  SCALAI_CHECK(cities >= 0 && cities <= kMostLevels, std::to_string(cities));
  std::vector<double> spectrum;
  int64_t times = 1;  // binomial(cities, i)
  for (int i = 0; i <= cities; ++i) {
    spectrum.insert(spectrum.end(), static_cast<size_t>(times), 2.0 * i);
    times = times * (cities - i) / (i + 1);
  }
  return spectrum;
}

}  // namespace scalai::bounds
