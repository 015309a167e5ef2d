#include "labs/bounds/eigenvalues.h"

#include <fmt/format.h>

#include <Spectra/SymEigsSolver.h>
#include <Eigen/Dense>
#include <Eigen/Sparse>
#include <algorithm>
#include <exception>
#include <limits>
#include <optional>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;
using Sparse = Eigen::SparseMatrix<double>;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kMostRuns = 12;         // of Lanczos
constexpr int kMostIterations = 300;  // of a run: restarts
constexpr int kMostProofs = 4;        // places where the count is tried

class Factor : public Eigen::SimplicialLDLT<Sparse> {
 public:
  int64_t entries() const { return m_matrix.nonZeros(); }
};

Sparse laplacian_of(const WeightedGraph& graph) {
  std::vector<Eigen::Triplet<double>> entries;
  entries.reserve(graph.edges.size() * 4 + static_cast<size_t>(graph.vertices));
  for (int32_t vertex = 0; vertex < graph.vertices; ++vertex) entries.emplace_back(vertex, vertex, 0);  // to be shifted
  for (const Edge& edge : graph.edges) {
    entries.emplace_back(edge.a, edge.a, edge.weight);
    entries.emplace_back(edge.b, edge.b, edge.weight);
    entries.emplace_back(edge.a, edge.b, -edge.weight);
    entries.emplace_back(edge.b, edge.a, -edge.weight);
  }
  Sparse matrix(graph.vertices, graph.vertices);
  matrix.setFromTriplets(entries.begin(), entries.end());
  return matrix;
}

// ‖L‖_2 of a Laplacian is at most twice its largest degree.
double norm_bound(const Sparse& matrix) { return 2 * matrix.diagonal().maxCoeff(); }

double rounding_of(const Sparse& matrix) { return static_cast<double>(matrix.rows()) * kEpsilon * norm_bound(matrix); }

Spectrum dense_spectrum(const Sparse& matrix, int count) {
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(Matrix(matrix), Eigen::EigenvaluesOnly);
  const double error = rounding_of(matrix);
  Spectrum spectrum;
  for (Eigen::Index i = 0; i < std::min<Eigen::Index>(count, matrix.rows()); ++i)
    spectrum.lower.push_back(std::max(0.0, solver.eigenvalues()[i] - error));
  spectrum.rest = spectrum.lower.empty() ? 0 : spectrum.lower.back();
  return spectrum;
}

// (L + τI)^-1 on the complement of what has been found; what Spectra multiplies with.
class Inverse {
 public:
  using Scalar = double;
  Inverse(const Factor& factor, const Matrix& found) : factor_(factor), found_(found) {}
  Eigen::Index rows() const { return factor_.rows(); }
  Eigen::Index cols() const { return factor_.cols(); }
  void perform_op(const double* in, double* out) const {
    const Vector x = complement(Eigen::Map<const Vector>(in, rows()));
    Eigen::Map<Vector>(out, rows()) = complement(factor_.solve(x));
  }

 private:
  Vector complement(const Vector& x) const { return x - found_ * (found_.transpose() * x); }
  const Factor& factor_;
  const Matrix& found_;
};

// Ritz pairs of all that was found, best first, with the norm of what they leave.
struct Pairs {
  Vector values;
  Matrix vectors;
  double residual = 0;
};

Pairs rayleigh_ritz(const Sparse& matrix, const Matrix& basis) {
  const Eigen::HouseholderQR<Matrix> qr(basis);
  const Matrix q = qr.householderQ() * Matrix::Identity(basis.rows(), basis.cols());
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(q.transpose() * (matrix * q));
  Pairs pairs{solver.eigenvalues(), q * solver.eigenvectors()};
  pairs.residual = (matrix * pairs.vectors - pairs.vectors * pairs.values.asDiagonal()).norm();
  return pairs;
}

// Eigenvalues below σ, and how far the factors are from L − σI.
struct Count {
  int64_t below = 0;
  double error = 0;
};

// ‖E‖ <= 10·√(2/π)·max ‖E·z_i‖ over 16 Gaussian vectors fails with probability 1e-16 (Halko, Martinsson, Tropp,
// "Finding structure with randomness", 2011, lemma 4.1). Sums of 12 uniform numbers stand for Gaussian ones.
double backward_error(const Sparse& matrix, const Factor& factor) {
  Random random(1);
  double largest = 0;
  for (int probe = 0; probe < 16; ++probe) {
    Vector z(matrix.rows());
    for (double& one : z) {
      one = -6;
      for (int i = 0; i < 12; ++i) one += random.uniform();
    }
    const Vector permuted = factor.permutationP() * z;
    const Vector upper = factor.matrixU() * permuted;
    const Vector scaled = factor.vectorD().cwiseProduct(upper);
    const Vector product = factor.permutationPinv() * Vector(factor.matrixL() * scaled);
    largest = std::max(largest, (matrix * z - product).norm());
  }
  return 10 * 0.8 * largest;
}

std::optional<Count> count_below(const Sparse& matrix, double sigma) {
  Sparse shifted = matrix;
  shifted.diagonal().array() -= sigma;
  Factor factor;
  factor.compute(shifted);
  if (factor.info() != Eigen::Success) return std::nullopt;
  Count count;
  for (const double pivot : factor.vectorD()) count.below += pivot < 0;
  count.error = backward_error(shifted, factor);
  return count;
}

// A shift just below pair `next`, in the gap behind the pair before it; none if they are too close to tell apart.
std::optional<double> shift_below(const Pairs& pairs, Eigen::Index next, double scale) {
  const double gap = pairs.values[next] - pairs.values[next - 1];
  if (gap < 1e-7 * scale + 4 * pairs.residual) return std::nullopt;
  return pairs.values[next] - std::min(gap / 2, 1e-6 * scale + 2 * pairs.residual);
}

class Solver {
 public:
  Solver(const Sparse& matrix, int count)
      : matrix_(matrix), count_(count), scale_(norm_bound(matrix) / 2), rounding_(rounding_of(matrix)) {}

  absl::StatusOr<Spectrum> run() {
    Sparse shifted = matrix_;
    shifted.diagonal().array() += 1e-3 * scale_;
    factor_.analyzePattern(shifted);
    if (factor_.entries() > kMostFactorEntries)
      return invalid(
          fmt::format("the factors of a graph of {} operations would have {} entries, more than {}; bound a "
                      "part of the graph",
                      matrix_.rows(), factor_.entries(), kMostFactorEntries));
    factor_.factorize(shifted);
    if (factor_.info() != Eigen::Success) return absl::InternalError("Eigen: the Laplacian was not factored");
    int64_t wanted = count_ + 1;  // one more, so that the others can be counted
    Spectrum spectrum;
    for (int run = 0; run < kMostRuns && wanted > 0; ++run) {
      search(wanted);
      if (found_.cols() < 2) break;
      pairs_ = rayleigh_ritz(matrix_, found_);
      found_ = pairs_.vectors;
      wanted = prove(spectrum);
    }
    return spectrum;
  }

 private:
  void search(int64_t wanted) {
    Inverse inverse(factor_, found_);
    const Eigen::Index n = matrix_.rows(), nev = std::min<Eigen::Index>(wanted, n / 4);
    Spectra::SymEigsSolver<Inverse> solver(inverse, nev, std::min(n, 2 * nev + 20));
    solver.init();
    solver.compute(Spectra::SortRule::LargestAlge, kMostIterations, 1e-11);
    const Matrix more = solver.eigenvectors();
    Matrix all(n, found_.cols() + more.cols());
    all << found_, more;
    found_ = std::move(all);
  }

  // Counts at the highest gap that allows it. Returns how many eigenvalues are missing there, 0 if none is. Keeps the
  // best proof in `spectrum`.
  int64_t prove(Spectrum& spectrum) const {
    int proofs = 0;
    int64_t missing = 0;
    for (Eigen::Index next = std::min<Eigen::Index>(pairs_.values.size() - 1, count_); next > 0; --next) {
      const auto sigma = shift_below(pairs_, next, scale_);
      if (!sigma) continue;
      if (proofs++ == kMostProofs) break;
      const auto count = count_below(matrix_, *sigma);
      if (!count) continue;
      if (count->below > next && missing == 0) missing = count->below - next;
      if (count->below != next || 2 * count->error > 1e-6 * scale_) continue;
      // The matrix that was counted differs by `error`: the pairs found must be below for it, too.
      if (count->error + pairs_.residual + rounding_ >= *sigma - pairs_.values[next - 1]) continue;
      if (next > std::ssize(spectrum.lower)) {
        spectrum.lower.clear();
        for (Eigen::Index i = 0; i < next; ++i)
          spectrum.lower.push_back(std::max(0.0, pairs_.values[i] - pairs_.residual - rounding_));
        spectrum.rest = std::max(0.0, *sigma - count->error - rounding_);
      }
      break;
    }
    return missing;
  }

  const Sparse& matrix_;
  const int count_;
  const double scale_;
  const double rounding_;  // of residuals, and of how orthonormal the pairs are
  Factor factor_;
  Matrix found_ = Matrix(matrix_.rows(), 0);
  Pairs pairs_;
};

}  // namespace

absl::StatusOr<Spectrum> smallest_eigenvalues(const WeightedGraph& graph, int count) {
  if (graph.vertices > kMostVertices)
    return invalid(
        fmt::format("a graph of {} operations is larger than the {} whose eigenvalues are computed; bound a "
                    "part of it",
                    graph.vertices, kMostVertices));
  if (graph.vertices == 0 || graph.edges.empty())
    return Spectrum{std::vector<double>(static_cast<size_t>(std::min(graph.vertices, count)), 0.0), 0};
  const Sparse matrix = laplacian_of(graph);
  if (graph.vertices <= kDense) return dense_spectrum(matrix, count);
  try {
    return Solver(matrix, count).run();
  } catch (const std::exception& error) {  // Spectra documents std::invalid_argument and std::runtime_error
    return absl::InternalError(fmt::format("Spectra: {}", error.what()));
  }
}

}  // namespace scalai::bounds
