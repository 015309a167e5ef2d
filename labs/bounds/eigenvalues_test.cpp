#include "labs/bounds/eigenvalues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "labs/bounds/known_graphs.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

// Of the Laplacian with weight 1 on every edge between an operand and its user.
WeightedGraph unweighted(const ComputationGraph& graph) {
  WeightedGraph out{graph.values(), {}};
  for (int32_t value = 0; value < graph.values(); ++value) {
    for (const int32_t operand : graph.operands(value)) out.edges.push_back({operand, value, 1});
  }
  return out;
}

// Jacobi's method (1846), an oracle of our own: rotations until nothing is left beside the diagonal.
std::vector<double> jacobi(const WeightedGraph& graph) {
  const auto n = static_cast<size_t>(graph.vertices);
  std::vector<std::vector<double>> a(n, std::vector<double>(n, 0));
  for (const Edge& edge : graph.edges) {
    const auto i = static_cast<size_t>(edge.a), j = static_cast<size_t>(edge.b);
    a[i][i] += edge.weight, a[j][j] += edge.weight, a[i][j] -= edge.weight, a[j][i] -= edge.weight;
  }
  for (int sweep = 0; sweep < 30; ++sweep) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (std::abs(a[p][q]) < 1e-300) continue;
        const double theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
        const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (size_t k = 0; k < n; ++k) {
          const double kp = a[k][p], kq = a[k][q];
          a[k][p] = c * kp - s * kq, a[k][q] = s * kp + c * kq;
        }
        for (size_t k = 0; k < n; ++k) {
          const double pk = a[p][k], qk = a[q][k];
          a[p][k] = c * pk - s * qk, a[q][k] = s * pk + c * qk;
        }
      }
    }
  }
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(a[i][i]);
  std::sort(values.begin(), values.end());
  return values;
}

// None too large, `rest` neither; the first `close` ones within `tolerance`.
void expect_lower(const Spectrum& spectrum, const std::vector<double>& truth, size_t close, double tolerance) {
  ASSERT_LE(spectrum.lower.size(), truth.size());
  ASSERT_GE(spectrum.lower.size(), std::min(close, truth.size()));
  constexpr double kOfTruth = 1e-12;  // the closed form is rounded, too
  for (size_t i = 0; i < truth.size(); ++i) {
    const double lower = i < spectrum.lower.size() ? spectrum.lower[i] : spectrum.rest;
    ASSERT_LE(lower, truth[i] * (1 + kOfTruth) + 1e-14) << "eigenvalue " << i;
    if (i < close) {
      ASSERT_NEAR(lower, truth[i], tolerance) << "eigenvalue " << i;
    }
  }
}

TEST(SmallestEigenvalues, OfSmallGraphsAreJacobis) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    const int values = static_cast<int>(random.between(2, 40));
    const ComputationGraph graph = random_graph(values, random.uniform(), values, seed);
    for (const Expansion expansion : {Expansion::kStar, Expansion::kClique}) {
      const WeightedGraph weighted = expand(graph, expansion);
      const auto found = smallest_eigenvalues(weighted, values);
      ASSERT_TRUE(found.ok()) << found.status();
      expect_lower(*found, jacobi(weighted), static_cast<size_t>(values), 1e-9);
    }
  }
}

TEST(SmallestEigenvalues, OfSmallButterfliesAndHypercubesAreTheClosedForm) {
  for (int size = 0; size <= 6; ++size) {
    SCOPED_TRACE(size);
    const auto fft = smallest_eigenvalues(unweighted(butterfly(size)), 1000);
    const auto cube = smallest_eigenvalues(unweighted(bellman_held_karp(size)), 1000);
    ASSERT_TRUE(fft.ok() && cube.ok());
    expect_lower(*fft, butterfly_spectrum(size), 1000, 1e-9);
    expect_lower(*cube, hypercube_spectrum(size), 1000, 1e-9);
  }
}

// Multiple eigenvalues, which a Lanczos run misses copies of.
TEST(SmallestEigenvalues, OfLargeButterfliesAndHypercubesAreTheClosedForm) {
  ASSERT_GT(butterfly(8).values(), kDense);
  const auto fft = smallest_eigenvalues(unweighted(butterfly(8)), 100);
  ASSERT_TRUE(fft.ok()) << fft.status();
  expect_lower(*fft, butterfly_spectrum(8), 60, 1e-6);
  const auto cube =
      smallest_eigenvalues(unweighted(bellman_held_karp(11)), 60);  // 0, 2 eleven times, 4 fifty-five times
  ASSERT_TRUE(cube.ok()) << cube.status();
  expect_lower(*cube, hypercube_spectrum(11), 12, 1e-6);
  EXPECT_NEAR(cube->rest, 4, 1e-4);
}

TEST(SmallestEigenvalues, OfALargeGraphInPiecesAreZeroForEach) {
  WeightedGraph graph{3000, {}};
  for (int32_t i = 0; i < 3000; ++i) {
    if (i % 500 != 499) graph.edges.push_back({i, i + 1, 1e9});
  }
  const auto found = smallest_eigenvalues(graph, 20);
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<double> truth;
  for (int j = 0; j < 500; ++j) truth.insert(truth.end(), 6, 1e9 * (2 - 2 * std::cos(M_PI * j / 500)));
  expect_lower(*found, truth, 6, 1);
  EXPECT_GT(found->rest, 0);
}

TEST(SmallestEigenvalues, WithoutEdgesAreZeroAndTooManyAreRefused) {
  const auto none = smallest_eigenvalues({5, {}}, 3);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->lower, std::vector<double>(3, 0));
  EXPECT_EQ(none->rest, 0);
  const auto large = smallest_eigenvalues({kMostVertices + 1, {{0, 1, 1}}}, 3);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace scalai::bounds
