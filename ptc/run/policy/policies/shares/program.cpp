#include "ptc/run/policy/policies/shares/program.h"

#include <fmt/core.h>

#include <CbcHeuristic.hpp>
#include <CbcModel.hpp>
#include <CglKnapsackCover.hpp>
#include <CglMixedIntegerRounding2.hpp>
#include <ClpPackedMatrix.hpp>
#include <ClpSimplex.hpp>
#include <CoinError.hpp>
#include <CoinIndexedVector.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>
#include <algorithm>
#include <cmath>
#include <utility>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr int kSeed = 20260101;
constexpr double kFeasibility = 1e-9;  // of rows and reduced costs: two digits beyond what POP's optima are compared to

double coin_bound(double bound) { return std::isinf(bound) ? std::copysign(COIN_DBL_MAX, bound) : bound; }

absl::Status infeasible_error() { return absl::FailedPreconditionError("the program has no feasible point"); }
absl::Status unbounded_error() { return absl::OutOfRangeError("the program is unbounded"); }

// CLP's matrix, without the assertion that ends the process (`elValue` of ClpPackedMatrix.cpp; Debian builds CLP with
// assertions). CLP replaces a difference that cancels by 1e-100, which rows of its factorization multiply by rounding
// errors of 1e-16; after 14 such rows the number is denormal, times an element it is 0, and CLP asserts that it is not.
// Entries below kNothing are left out of the vector, so that no product with an element above 1e-20, CLP's smallest,
// becomes 0. They are far below any tolerance, and vectors without them are used as they are.
class Matrix final : public ClpPackedMatrix {
 public:
  using ClpPackedMatrix::ClpPackedMatrix;
  using ClpPackedMatrix::transposeTimes;
  ClpMatrixBase* clone() const override { return new Matrix(*this); }
  ClpMatrixBase* subsetClone(int rows, const int* which_rows, int columns, const int* which_columns) const override {
    return new Matrix(*this, rows, which_rows, columns, which_columns);
  }

  void transposeTimes(const ClpSimplex* model, double scalar, const CoinIndexedVector* x, CoinIndexedVector* y,
                      CoinIndexedVector* z) const override {
    const auto is_nothing = [&](int k) { return std::abs(x->denseVector()[place(*x, k)]) < kNothing; };
    int k = 0;
    while (k < x->getNumElements() && !is_nothing(k)) ++k;
    if (k == x->getNumElements()) return ClpPackedMatrix::transposeTimes(model, scalar, x, y, z);
    const CoinIndexedVector kept = without_nothing(*x);
    ClpPackedMatrix::transposeTimes(model, scalar, &kept, y, z);
  }

 private:
  static constexpr double kNothing = 1e-280;

  // Of the k-th entry; a packed vector has its values in the order of its indices.
  static int place(const CoinIndexedVector& x, int k) { return x.packedMode() ? k : x.getIndices()[k]; }

  static CoinIndexedVector without_nothing(const CoinIndexedVector& x) {
    CoinIndexedVector kept(x);
    kept.setPackedMode(x.packedMode());
    int count = 0;
    for (int k = 0; k < x.getNumElements(); ++k) {
      const double value = std::exchange(kept.denseVector()[place(x, k)], 0);
      if (std::abs(value) < kNothing) continue;
      kept.getIndices()[count] = x.getIndices()[k];
      kept.denseVector()[place(kept, count++)] = value;
    }
    kept.setNumElements(count);
    return kept;
  }
};

}  // namespace

// What CLP wants of a program: columns by column, bounds in its infinities.
struct ProgramAccess {
  CoinPackedMatrix matrix;
  std::vector<double> column_lower, column_upper, objective, row_lower, row_upper;
  std::vector<int> integers;
  double sense = 1;  // COIN's: 1 minimise, -1 maximise

  explicit ProgramAccess(const Program& program) : sense(program.sense_ == Program::Sense::kMaximise ? -1 : 1) {
    for (const Program::Column& column : program.columns_) {
      if (column.integer) integers.push_back(static_cast<int>(column_lower.size()));
      column_lower.push_back(coin_bound(column.lower));
      column_upper.push_back(coin_bound(column.upper));
      objective.push_back(column.objective);
    }
    for (int row = 0; row < program.rows(); ++row) {
      row_lower.push_back(coin_bound(program.row_lower_[static_cast<size_t>(row)]));
      row_upper.push_back(coin_bound(program.row_upper_[static_cast<size_t>(row)]));
    }
    fill_matrix(program);
  }

  void fill_matrix(const Program& program) {
    const auto rows = static_cast<int>(program.row_lower_.size());
    const auto size = program.terms_.size();
    std::vector<int> row_of(size);
    std::vector<int> column_of(size);
    std::vector<double> value(size);
    for (int row = 0; row < rows; ++row) {
      const auto begin = static_cast<size_t>(program.row_starts_[static_cast<size_t>(row)]);
      const auto end = static_cast<size_t>(program.row_starts_[static_cast<size_t>(row) + 1]);
      for (size_t k = begin; k < end; ++k) {
        row_of[k] = row;
        column_of[k] = program.terms_[k].column;
        value[k] = program.terms_[k].coefficient;
      }
    }
    matrix = CoinPackedMatrix(true, row_of.data(), column_of.data(), value.data(), static_cast<CoinBigIndex>(size));
    matrix.setDimensions(rows, program.columns());
  }
};

namespace {

Basis basis_of(ClpSimplex& model) {
  Basis basis;
  basis.columns.resize(static_cast<size_t>(model.numberColumns()));
  basis.rows.resize(static_cast<size_t>(model.numberRows()));
  for (int j = 0; j < model.numberColumns(); ++j) {
    basis.columns[static_cast<size_t>(j)] = static_cast<uint8_t>(model.getColumnStatus(j));
  }
  for (int i = 0; i < model.numberRows(); ++i) {
    basis.rows[static_cast<size_t>(i)] = static_cast<uint8_t>(model.getRowStatus(i));
  }
  return basis;
}

void set_basis(ClpSimplex& model, const Basis& basis) {
  model.createStatus();
  for (int j = 0; j < model.numberColumns(); ++j) {
    model.setColumnStatus(j, static_cast<ClpSimplex::Status>(basis.columns[static_cast<size_t>(j)]));
  }
  for (int i = 0; i < model.numberRows(); ++i) {
    model.setRowStatus(i, static_cast<ClpSimplex::Status>(basis.rows[static_cast<size_t>(i)]));
  }
}

enum class Algorithm : uint8_t { kUsual, kPrimal, kUnscaledDual };

// By the usual algorithm: primal from a start, else dual.
absl::StatusOr<Solution> solve_linear(const ProgramAccess& data, const Basis* start, Algorithm algorithm) {
  ClpSimplex model;
  model.setLogLevel(0);
  model.setRandomSeed(kSeed);
  model.loadProblem(Matrix(data.matrix), data.column_lower.data(), data.column_upper.data(), data.objective.data(),
                    data.row_lower.data(), data.row_upper.data());
  model.setOptimizationDirection(data.sense);
  model.setPrimalTolerance(kFeasibility);
  model.setDualTolerance(kFeasibility);
  const bool warm = start != nullptr && algorithm == Algorithm::kUsual &&
                    static_cast<int>(start->columns.size()) == model.numberColumns() &&
                    static_cast<int>(start->rows.size()) == model.numberRows();
  if (warm) {
    set_basis(model, *start);
    model.primal();
  } else if (algorithm == Algorithm::kPrimal) {
    model.primal();
  } else {
    if (algorithm == Algorithm::kUnscaledDual) model.scaling(0);
    model.dual();
  }
  if (model.status() != 0 && model.status() != 1 && model.status() != 2) {
    model.primal(1);  // stalled or lost in numerics: once more from where it is
  }
  if (model.isProvenPrimalInfeasible()) return infeasible_error();
  if (model.isProvenDualInfeasible()) return unbounded_error();
  if (!model.isProvenOptimal()) {
    return absl::InternalError(
        fmt::format("CLP stopped with status {} after {} pivots", model.status(), model.numberIterations()));
  }
  Solution solution;
  solution.objective = model.objectiveValue();
  const auto columns = static_cast<size_t>(model.numberColumns());
  const auto rows = static_cast<size_t>(model.numberRows());
  solution.values.assign(model.primalColumnSolution(), model.primalColumnSolution() + columns);
  solution.reduced_costs.assign(model.dualColumnSolution(), model.dualColumnSolution() + columns);
  solution.row_duals.assign(model.dualRowSolution(), model.dualRowSolution() + rows);
  solution.basis = basis_of(model);
  solution.effort = {.programs = 1, .pivots = model.numberIterations()};
  return solution;
}

// CLP's exceptions as errors.
template <typename Solve>
absl::StatusOr<Solution> caught(const Solve& solve) {
  try {
    return solve();
  } catch (const CoinError& error) {
    return absl::InternalError(fmt::format("{}: {}", error.methodName(), error.message()));
  }
}

// Every algorithm in turn, until one has an answer.
absl::StatusOr<Solution> solve_linear(const ProgramAccess& data, const Basis* start) {
  absl::StatusOr<Solution> solution;
  int64_t retries = 0;
  for (const Algorithm algorithm : {Algorithm::kUsual, Algorithm::kPrimal, Algorithm::kUnscaledDual}) {
    solution = caught([&] { return solve_linear(data, start, algorithm); });
    if (!absl::IsInternal(solution.status())) break;
    ++retries;
  }
  if (solution.ok()) solution->effort.retries = retries > 0 ? 1 : 0;
  return solution;
}

absl::StatusOr<Solution> solve_integer(const ProgramAccess& data, const Program::Limits& limits) {
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  solver.getModelPtr()->setRandomSeed(kSeed);
  solver.loadProblem(data.matrix, data.column_lower.data(), data.column_upper.data(), data.objective.data(),
                     data.row_lower.data(), data.row_upper.data());
  solver.getModelPtr()->replaceMatrix(new Matrix(data.matrix), /*deleteCurrent=*/true);
  solver.setObjSense(data.sense);
  solver.setInteger(data.integers.data(), static_cast<int>(data.integers.size()));
  solver.initialSolve();
  if (solver.isProvenPrimalInfeasible()) return infeasible_error();
  if (solver.isProvenDualInfeasible()) return unbounded_error();
  CbcModel model(solver);
  model.setLogLevel(0);
  model.setRandomSeed(kSeed);
  model.setNumberThreads(0);
  model.setAllowableFractionGap(limits.gap);
  model.setAllowableGap(0);
  model.setMaximumNodes(limits.nodes);
  if (std::isfinite(limits.seconds)) model.setMaximumSeconds(limits.seconds);
  CglKnapsackCover knapsack;
  CglMixedIntegerRounding2 rounding;
  model.addCutGenerator(&knapsack, -1, "knapsack");
  model.addCutGenerator(&rounding, -1, "rounding");
  CbcRounding heuristic(model);
  model.addHeuristic(&heuristic);
  model.branchAndBound();
  if (model.isProvenInfeasible()) return infeasible_error();
  if (model.bestSolution() == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("no solution of the integer program was found in {} nodes", model.getNodeCount()));
  }
  Solution solution;
  solution.objective = model.getObjValue();
  const double* best = model.bestSolution();
  solution.values.assign(best, best + data.objective.size());
  for (int column : data.integers) {
    double& value = solution.values[static_cast<size_t>(column)];
    value = std::round(value);
  }
  solution.row_duals.assign(data.row_lower.size(), 0);
  solution.reduced_costs.assign(data.objective.size(), 0);
  solution.effort = {.programs = 1, .pivots = model.getNodeCount()};
  // Also of a solution that is optimal within the gap that was allowed.
  const double distance = std::abs(solution.objective - model.getBestPossibleObjValue());
  solution.gap = distance / std::max(1e-12, std::abs(solution.objective));
  return solution;
}

}  // namespace

int Program::column(const Column& column) {
  SCALAI_CHECK(std::isfinite(column.objective) && column.lower <= column.upper, "bounds of a column");
  columns_.push_back(column);
  last_term_.push_back(-1);
  return columns() - 1;
}

int Program::row(std::span<const Term> terms, double lower, double upper) {
  SCALAI_CHECK(lower <= upper, "bounds of a row");
  for (const Term& term : terms) {
    SCALAI_CHECK(term.column >= 0 && term.column < columns() && std::isfinite(term.coefficient), "term of a row");
    int64_t& last = last_term_[static_cast<size_t>(term.column)];
    if (last >= row_starts_.back()) {
      terms_[static_cast<size_t>(last)].coefficient += term.coefficient;
    } else {
      last = static_cast<int64_t>(terms_.size());
      terms_.push_back(term);
    }
  }
  row_starts_.push_back(static_cast<int64_t>(terms_.size()));
  row_lower_.push_back(lower);
  row_upper_.push_back(upper);
  return rows() - 1;
}

void Program::set_bounds(int column, double lower, double upper) {
  SCALAI_CHECK(lower <= upper, "bounds of a column");
  columns_[static_cast<size_t>(column)].lower = lower;
  columns_[static_cast<size_t>(column)].upper = upper;
}

void Program::set_row_bounds(int row, double lower, double upper) {
  SCALAI_CHECK(lower <= upper, "bounds of a row");
  row_lower_[static_cast<size_t>(row)] = lower;
  row_upper_[static_cast<size_t>(row)] = upper;
}

absl::StatusOr<Solution> Program::solve(const Basis* start) const {
  if (columns_.empty()) return absl::InvalidArgumentError("a program without columns");
  const ProgramAccess data(*this);
  if (!data.integers.empty()) return solve_within({});
  return solve_linear(data, start);
}

absl::StatusOr<Solution> Program::solve_within(const Limits& limits) const {
  SCALAI_CHECK(!columns_.empty(), "a program without columns");
  const ProgramAccess data(*this);
  return caught([&] { return solve_integer(data, limits); });
}

bool infeasible(const absl::Status& status) { return absl::IsFailedPrecondition(status); }

}  // namespace scalai::policy
