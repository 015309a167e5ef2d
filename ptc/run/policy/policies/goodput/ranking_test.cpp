#include "ptc/run/policy/policies/goodput/ranking.h"

#include <gtest/gtest.h>

#include <limits>

#include "ptc/base/random.h"

namespace scalai::policy {
namespace {

std::vector<Individual> individuals(const std::vector<std::pair<double, double>>& values) {
  std::vector<Individual> population;
  for (const auto& [mean, use] : values) population.push_back({.slot = population.size(), .mean = mean, .use = use});
  return population;
}

TEST(Ranking, FrontsThenCrowding) {
  // A front of four (0, 1, 2, 4), and one that the second of them beats.
  std::vector<Individual> population = individuals({{4, 1}, {3, 2}, {1, 3}, {2, 1.5}, {2, 2.5}});
  rank(population);
  EXPECT_EQ(population.back().slot, 3U);
  EXPECT_EQ(population.back().rank, 1);
  // Between the ends, by half the sum of the distances of their neighbours: of 1 (4 - 2) / 3 and (2.5 - 1) / 2.
  EXPECT_EQ(population[0].crowding, std::numeric_limits<double>::infinity());
  EXPECT_EQ(population[2].slot, 1U);
  EXPECT_DOUBLE_EQ(population[2].crowding, (2.0 / 3 + 1.5 / 2) / 2);
  EXPECT_EQ(population[3].slot, 4U);
}

// The rank is the length of the longest chain of those that dominate it.
TEST(Ranking, IsByDomination) {
  Random random(1);  // seed 1
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<double, double>> values;
    for (int64_t k = random.between(1, 30); k > 0; --k) {
      values.emplace_back(static_cast<double>(random.below(6)), static_cast<double>(random.below(6)));
    }
    std::vector<Individual> population = individuals(values);
    rank(population);
    for (const Individual& one : population) {
      int above = -1;
      for (const Individual& other : population) {
        if (dominates(other, one)) above = std::max(above, other.rank);
      }
      EXPECT_EQ(one.rank, above + 1);
    }
  }
}

}  // namespace
}  // namespace scalai::policy
