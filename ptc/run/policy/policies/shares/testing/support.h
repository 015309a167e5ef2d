#pragma once
// For tests of this folder: random problems, whether shares are allowed, and the vertices of a small polytope.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/run/policy/policies/shares/allocation.h"

namespace scalai::policy::testing {

inline ShareProblem random_problem(Random& random, int jobs, int types, bool packing) {
  ShareProblem problem;
  for (int j = 0; j < types; ++j) {
    problem.gpus.push_back(static_cast<int>(random.between(1, 6)));
    problem.prices.push_back(0.5 + random.uniform() * 3);
  }
  for (int m = 0; m < jobs; ++m) {
    ShareJob& job = problem.jobs.emplace_back();
    job.id = JobId(m);
    job.gpus = 1 << random.below(2);
    job.weight = 1 + static_cast<double>(random.below(3));
    job.remaining = 100 + random.uniform() * 1000;
    job.age_s = random.uniform() * 50;
    job.isolated_s = job.age_s * random.uniform();
    job.entity = random.below(2) == 0 ? "a" : "b";
    for (int j = 0; j < types; ++j) {
      const bool fits = job.gpus <= problem.gpus[static_cast<size_t>(j)] && random.below(8) != 0;
      job.rates.push_back(fits ? 0.5 + random.uniform() * 4 : 0);
    }
  }
  for (int j = 0; packing && j < types; ++j) {
    for (int a = 0; a < jobs; ++a) {
      for (int b = a + 1; b < jobs; ++b) {
        const ShareJob& first = problem.jobs[static_cast<size_t>(a)];
        const ShareJob& second = problem.jobs[static_cast<size_t>(b)];
        const auto type = static_cast<size_t>(j);
        if (first.gpus == second.gpus && first.rates[type] > 0 && second.rates[type] > 0) {
          problem.pairs.push_back({a, b, GpuType(j), first.rates[type] * (0.3 + 0.6 * random.uniform()),
                                   second.rates[type] * (0.3 + 0.6 * random.uniform())});
        }
      }
    }
  }
  return problem;
}

inline bool all_run(const ShareProblem& problem) {
  return std::all_of(problem.jobs.begin(), problem.jobs.end(), [](const ShareJob& job) { return job.runs(); });
}

// Small enough for every vertex to be tried.
inline ShareProblem small_problem(uint64_t seed) {
  Random random(seed);
  const bool packing = random.below(3) == 0;
  ShareProblem problem = random_problem(random, packing ? 2 : static_cast<int>(random.between(1, 3)), 2, packing);
  while (!all_run(problem)) {
    problem = random_problem(random, packing ? 2 : static_cast<int>(random.between(1, 3)), 2, packing);
  }
  return problem;
}

inline void expect_allowed(const ShareProblem& problem, const Shares& shares, double tolerance = 1e-6) {
  ASSERT_EQ(shares.alone.size(), problem.jobs.size());
  ASSERT_EQ(shares.paired.size(), problem.pairs.size());
  std::vector<double> time(problem.jobs.size());
  std::vector<double> used(problem.gpus.size());
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    ASSERT_EQ(shares.alone[m].size(), problem.gpus.size());
    for (size_t j = 0; j < problem.gpus.size(); ++j) {
      const double share = shares.alone[m][j];
      EXPECT_GE(share, 0);
      EXPECT_TRUE(share == 0 || problem.jobs[m].rates[j] > 0) << "job " << m << " on type " << j;
      time[m] += share;
      used[j] += share * problem.jobs[m].gpus;
    }
  }
  for (size_t p = 0; p < problem.pairs.size(); ++p) {
    const SharePair& pair = problem.pairs[p];
    EXPECT_GE(shares.paired[p], 0);
    time[static_cast<size_t>(pair.first)] += shares.paired[p];
    time[static_cast<size_t>(pair.second)] += shares.paired[p];
    used[static_cast<size_t>(pair.type.value)] += shares.paired[p] * problem.jobs[static_cast<size_t>(pair.first)].gpus;
  }
  for (size_t m = 0; m < time.size(); ++m) {
    EXPECT_LE(time[m], 1 + tolerance) << "job " << m;
  }
  for (size_t j = 0; j < used.size(); ++j) {
    EXPECT_LE(used[j], problem.gpus[j] + tolerance) << "type " << j;
  }
}

// One row of a x <= b.
struct Row {
  std::vector<double> a;
  double b = 0;
};

// The point where the chosen rows hold with equality; none where they do not meet in one point.
inline std::optional<std::vector<double>> meeting_point(std::vector<Row> rows) {
  const size_t n = rows.size();
  for (size_t column = 0; column < n; ++column) {
    size_t pivot = column;
    for (size_t k = column; k < n; ++k) {
      pivot = std::abs(rows[k].a[column]) > std::abs(rows[pivot].a[column]) ? k : pivot;
    }
    if (std::abs(rows[pivot].a[column]) < 1e-9) {
      return std::nullopt;
    }
    std::swap(rows[pivot], rows[column]);
    for (size_t k = 0; k < n; ++k) {
      const double factor = k == column ? 0 : rows[k].a[column] / rows[column].a[column];
      for (size_t j = column; j < n && factor != 0; ++j) {
        rows[k].a[j] -= factor * rows[column].a[j];
      }
      rows[k].b -= factor * rows[column].b;
    }
  }
  std::vector<double> x;
  for (size_t k = 0; k < n; ++k) {
    x.push_back(rows[k].b / rows[k].a[k]);
  }
  return x;
}

// max c x over the bounded polytope a x <= b, by trying every vertex; none where it is empty. Shares no code with CLP.
inline std::optional<double> best_vertex(const std::vector<Row>& rows, const std::vector<double>& c) {
  std::optional<double> best;
  std::vector<size_t> chosen;
  const std::function<void(size_t)> choose = [&](size_t from) {
    if (chosen.size() < c.size()) {
      for (size_t k = from; k < rows.size(); ++k) {
        chosen.push_back(k);
        choose(k + 1);
        chosen.pop_back();
      }
      return;
    }
    std::vector<Row> tight;
    for (size_t k : chosen) {
      tight.push_back(rows[k]);
    }
    const auto x = meeting_point(std::move(tight));
    if (!x) {
      return;
    }
    double value = 0;
    for (size_t j = 0; j < c.size(); ++j) {
      value += c[j] * (*x)[j];
    }
    const bool inside = std::all_of(rows.begin(), rows.end(), [&](const Row& row) {
      double sum = 0;
      for (size_t j = 0; j < c.size(); ++j) {
        sum += row.a[j] * (*x)[j];
      }
      return sum <= row.b + 1e-7 * (1 + std::abs(row.b));
    });
    if (inside && (!best || value > *best)) {
      best = value;
    }
  };
  choose(0);
  return best;
}

// The allowed shares as rows: variables X_mj job by job, then pairs, then `more` others.
struct Oracle {
  size_t shares = 0, variables = 0;
  std::vector<Row> rows;
  std::vector<std::vector<double>> rates;  // thr_m by variable

  Oracle(const ShareProblem& problem, size_t more) {
    const size_t types = problem.gpus.size();
    shares = problem.jobs.size() * types + problem.pairs.size();
    variables = shares + more;
    rates.assign(problem.jobs.size(), std::vector<double>(variables));
    std::vector<Row> time(problem.jobs.size(), Row{std::vector<double>(variables), 1});
    std::vector<Row> used;
    for (int gpus : problem.gpus) {
      used.push_back(Row{std::vector<double>(variables), static_cast<double>(gpus)});
    }
    for (size_t m = 0; m < problem.jobs.size(); ++m) {
      for (size_t j = 0; j < types; ++j) {
        const size_t k = m * types + j;
        rates[m][k] = problem.jobs[m].rates[j];
        time[m].a[k] = 1;
        used[j].a[k] = problem.jobs[m].gpus;
      }
    }
    for (size_t p = 0; p < problem.pairs.size(); ++p) {
      const SharePair& pair = problem.pairs[p];
      const size_t k = problem.jobs.size() * types + p;
      const auto first = static_cast<size_t>(pair.first);
      const auto second = static_cast<size_t>(pair.second);
      rates[first][k] = pair.first_rate;
      rates[second][k] = pair.second_rate;
      time[first].a[k] = time[second].a[k] = 1;
      used[static_cast<size_t>(pair.type.value)].a[k] = problem.jobs[first].gpus;
    }
    for (size_t k = 0; k < variables; ++k) {
      rows.push_back(Row{std::vector<double>(variables), 0});
      rows.back().a[k] = -1;
    }
    rows.insert(rows.end(), time.begin(), time.end());
    rows.insert(rows.end(), used.begin(), used.end());
  }

  // thr_m(X) >= part x need, `part` being the last variable.
  void add_need(size_t job, double need) {
    Row row{std::vector<double>(variables), 0};
    for (size_t k = 0; k < shares; ++k) {
      row.a[k] = -rates[job][k] / need;
    }
    row.a[variables - 1] = 1;
    rows.push_back(row);
  }
  std::vector<double> last() const {
    std::vector<double> c(variables);
    c.back() = 1;
    return c;
  }
};

}  // namespace scalai::policy::testing
