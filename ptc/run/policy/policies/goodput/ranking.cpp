#include "ptc/run/policy/policies/goodput/ranking.h"

#include <algorithm>
#include <limits>

namespace scalai::policy {
namespace {

// Ends of the front are infinitely far, doubles of another count nothing.
void crowd(std::vector<Individual>& population, const std::vector<size_t>& front) {
  std::vector<size_t> single;
  for (const size_t k : front) {
    population[k].crowding = 0;
    const bool twin = !single.empty() && population[single.back()].mean == population[k].mean &&
                      population[single.back()].use == population[k].use;
    if (!twin) single.push_back(k);
  }
  const double means = population[single.front()].mean - population[single.back()].mean;
  const double uses = population[single.back()].use - population[single.front()].use;
  for (size_t k = 0; k < single.size(); ++k) {
    if (k == 0 || k + 1 == single.size()) {
      population[single[k]].crowding = std::numeric_limits<double>::infinity();
      continue;
    }
    const Individual& before = population[single[k - 1]];
    const Individual& after = population[single[k + 1]];
    population[single[k]].crowding = ((before.mean - after.mean) / means + (after.use - before.use) / uses) / 2;
  }
}

}  // namespace

bool dominates(const Individual& a, const Individual& b) {
  return a.mean >= b.mean && a.use >= b.use && (a.mean > b.mean || a.use > b.use);
}

void rank(std::vector<Individual>& population) {
  std::stable_sort(population.begin(), population.end(), [](const Individual& a, const Individual& b) {
    return a.mean != b.mean ? a.mean > b.mean : a.use > b.use;
  });
  // By falling mean, a front is beaten by its last member if by any.
  std::vector<std::vector<size_t>> fronts;
  for (size_t k = 0; k < population.size(); ++k) {
    size_t rank = 0;
    while (rank < fronts.size() && dominates(population[fronts[rank].back()], population[k])) ++rank;
    if (rank == fronts.size()) fronts.emplace_back();
    fronts[rank].push_back(k);
    population[k].rank = static_cast<int>(rank);
  }
  for (const std::vector<size_t>& front : fronts) crowd(population, front);
  std::stable_sort(population.begin(), population.end(), [](const Individual& a, const Individual& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.crowding > b.crowding;
  });
}

}  // namespace scalai::policy
