#include "ptc/run/policy/policies/goodput/genetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace scalai::policy {
namespace {

// Speed-ups of Amdahl's kind, slower over several hosts.
double speedup(int job, int type, int hosts, int gpus) {
  const double parallel = 0.5 + 0.45 * ((job * 7) % 10) / 10.0;
  const double alone = 1 / ((1 - parallel) + parallel / gpus);
  return alone * (hosts > 1 ? 0.8 : 1) * (type + 1);
}

AllocationProblem random_problem(Random& random, int most_jobs, int most_hosts, int types) {
  AllocationProblem problem;
  const auto jobs = static_cast<size_t>(random.between(1, most_jobs));
  const auto hosts = static_cast<size_t>(random.between(1, most_hosts));
  for (size_t h = 0; h < hosts; ++h) {
    problem.capacity.push_back(static_cast<int>(random.between(0, 4)));
    problem.type.push_back(static_cast<int>(random.below(types)));
  }
  for (size_t k = 0; k < jobs; ++k) {
    const int least = static_cast<int>(random.between(1, 3));
    problem.jobs.push_back({least, least + static_cast<int>(random.between(0, 4)), random.uniform()});
  }
  problem.base.assign(jobs * hosts, 0);
  problem.speedup = speedup;
  return problem;
}

void expect_feasible(const AllocationProblem& problem, const Genes& genes) {
  const size_t hosts = problem.capacity.size();
  std::vector<int> spread(hosts, 0), used(hosts, 0);
  for (size_t job = 0; job < problem.jobs.size(); ++job) {
    int gpus = 0, on = 0, type = -1;
    for (size_t h = 0; h < hosts; ++h) {
      const int here = genes[job * hosts + h];
      if (here == 0) continue;
      EXPECT_TRUE(type < 0 || type == problem.type[h]);
      type = problem.type[h];
      gpus += here;
      used[h] += here;
      ++on;
    }
    EXPECT_TRUE(gpus == 0 || (gpus >= problem.jobs[job].least && gpus <= problem.jobs[job].most)) << gpus;
    for (size_t h = 0; h < hosts && on > 1; ++h) spread[h] += genes[job * hosts + h] > 0 ? 1 : 0;
  }
  for (size_t h = 0; h < hosts; ++h) {
    EXPECT_LE(used[h], problem.capacity[h]);
    EXPECT_LE(spread[h], 1);
  }
}

// The mean by its formula (pollux.py), p = -1.
double mean_of(const AllocationProblem& problem, const Genes& genes) {
  const size_t hosts = problem.capacity.size();
  const double scale =
      static_cast<double>(hosts) / std::max(std::accumulate(problem.capacity.begin(), problem.capacity.end(), 0), 1);
  double sum = 0;
  for (size_t job = 0; job < problem.jobs.size(); ++job) {
    int gpus = 0, on = 0, type = 0;
    bool same = true;
    for (size_t h = 0; h < hosts; ++h) {
      const int here = genes[job * hosts + h];
      same = same && here == problem.base[job * hosts + h];
      gpus += here;
      on += here > 0 ? 1 : 0;
      if (here > 0) type = problem.type[h];
    }
    const double speed = gpus == 0 ? 0 : speedup(static_cast<int>(job), type, on, gpus);
    sum += 1 / (speed * scale * (same ? 1 : problem.jobs[job].changed) + 1e-3);
  }
  return static_cast<double>(problem.jobs.size()) / sum;
}

TEST(SearchAllocation, IsFeasibleAndSaysTheMeanItHas) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    constexpr int kMostHosts[] = {6, 16, 40};  // rows of one word, of two, of any number
    const AllocationProblem problem = random_problem(random, 8, kMostHosts[seed % 3], 2);
    const FoundAllocation found = search_allocation(problem, {}, {.population = 20, .generations = 15}, random);
    ASSERT_FALSE(found.front.empty());
    for (size_t k = 0; k < found.front.size(); ++k) {
      expect_feasible(problem, found.front[k]);
      EXPECT_NEAR(found.means[k], mean_of(problem, found.front[k]), 1e-9 * found.means[k]);
      EXPECT_LE(found.means[k], found.means[found.best]);
      // Nobody on the front beats another.
      for (size_t other = 0; other < found.front.size(); ++other) {
        EXPECT_FALSE(found.means[other] > found.means[k] && found.utilisations[other] > found.utilisations[k]);
      }
    }
    EXPECT_GE(found.means[found.best], mean_of(problem, problem.base) * (1 - 1e-12));
  }
}

TEST(SearchAllocation, SameSeedSameResult) {
  Random first(5), second(5), third(6);
  Random maker(9);
  const AllocationProblem problem = random_problem(maker, 12, 8, 1);
  const FoundAllocation a = search_allocation(problem, {}, {.population = 30, .generations = 20}, first);
  const FoundAllocation b = search_allocation(problem, {}, {.population = 30, .generations = 20}, second);
  const FoundAllocation c = search_allocation(problem, {}, {.population = 30, .generations = 20}, third);
  EXPECT_EQ(a.front, b.front);
  EXPECT_EQ(a.means, b.means);
  EXPECT_NE(a.front, c.front);
}

// All allocations of small problems.
double exhaustive(const AllocationProblem& problem, Genes& genes, size_t at, std::vector<int>& left) {
  const size_t hosts = problem.capacity.size();
  if (at == genes.size()) {
    for (size_t job = 0; job < problem.jobs.size(); ++job) {
      const int gpus = std::accumulate(genes.begin() + static_cast<ptrdiff_t>(job * hosts),
                                       genes.begin() + static_cast<ptrdiff_t>((job + 1) * hosts), 0);
      if (gpus > problem.jobs[job].most || (gpus > 0 && gpus < problem.jobs[job].least)) return 0;
    }
    return mean_of(problem, genes);
  }
  double best = 0;
  for (int here = 0; here <= left[at % hosts]; ++here) {
    genes[at] = static_cast<uint8_t>(here);
    left[at % hosts] -= here;
    best = std::max(best, exhaustive(problem, genes, at + 1, left));
    left[at % hosts] += here;
  }
  genes[at] = 0;
  return best;
}

TEST(SearchAllocation, FindsTheBestOfSmallProblems) {
  int best = 0, tried = 0;
  for (uint64_t seed = 100; seed < 140; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    AllocationProblem problem = random_problem(random, 3, 2, 1);
    Genes genes(problem.base.size(), 0);
    std::vector<int> left = problem.capacity;
    const double exact = exhaustive(problem, genes, 0, left);
    // Interference may be what the best one has.
    const FoundAllocation found =
        search_allocation(problem, {}, {.population = 40, .generations = 60, .avoid_interference = false}, random);
    ++tried;
    best += found.means[found.best] >= exact * (1 - 1e-9) ? 1 : 0;
    EXPECT_LE(found.means[found.best], exact * (1 + 1e-9));
    EXPECT_GE(found.means[found.best], exact * 0.9);
  }
  EXPECT_GE(best, tried - 2);
}

TEST(SearchAllocation, AJobThatIsNotWorthMovingStays) {
  AllocationProblem problem;
  problem.capacity = {4, 4};
  problem.type = {0, 0};
  problem.jobs = {{1, 8, 0.0}};
  problem.base = {1, 0};
  problem.speedup = speedup;
  Random random(1);
  const FoundAllocation found = search_allocation(problem, {}, {.population = 20, .generations = 20}, random);
  EXPECT_EQ(found.front[found.best], problem.base);
}

TEST(SearchAllocation, GoesOnFromWhereItWas) {
  Random random(3);
  const AllocationProblem problem = random_problem(random, 10, 6, 1);
  const FoundAllocation first = search_allocation(problem, {}, {.population = 30, .generations = 40}, random);
  const FoundAllocation second = search_allocation(problem, first.front, {.population = 30, .generations = 1}, random);
  EXPECT_DOUBLE_EQ(second.means[second.best], first.means[first.best]);
}

TEST(SearchAllocation, GivesGangsAllTheirGpusAtOnce) {
  AllocationProblem problem;
  problem.capacity.assign(8, 4);
  problem.type.assign(8, 0);
  problem.jobs = {{16, 16, 0.5}, {4, 4, 0.5}, {12, 12, 0.5}};
  problem.base.assign(24, 0);
  problem.speedup = speedup;
  Random random(4);
  const FoundAllocation found = search_allocation(problem, {}, {}, random);
  const Genes& genes = found.front[found.best];
  for (size_t job = 0; job < 3; ++job) {
    const auto row = genes.begin() + static_cast<ptrdiff_t>(job * 8);
    EXPECT_EQ(std::accumulate(row, row + 8, 0), problem.jobs[job].least);
  }
}

TEST(SearchAllocation, LiftsTheTermOfOtherExponents) {
  AllocationProblem problem;
  problem.capacity = {4};
  problem.type = {0};
  problem.jobs = {{1, 4, 1}, {1, 4, 1}};
  problem.base.assign(2, 0);
  problem.exponent = 1;  // the sum: all to the one that scales
  problem.speedup = [](int job, int, int, int gpus) { return job == 0 ? 0.1 * gpus : 1.0 * gpus; };
  Random random(2);
  const FoundAllocation found = search_allocation(problem, {}, {.population = 20, .generations = 30}, random);
  EXPECT_EQ(found.front[found.best], (Genes{0, 4}));
}

}  // namespace
}  // namespace scalai::policy
