#include "labs/validation/policies/small/vertices.h"

#include <algorithm>
#include <cmath>

namespace scalai::policy::small {
namespace {

constexpr double kSingular = 1e-10;
constexpr double kBroken = 1e-9;

using Row = std::vector<double>;  // coefficients, then the bound

// Rows are taken or left one by one; those taken are kept in echelon form, so that a corner costs one substitution.
class Corners {
 public:
  explicit Corners(const SmallProgram& program) : program_(program), columns_(program.objective.size()) {
    for (size_t i = 0; i < program.rows.size(); ++i) add(program.rows[i], program.bounds[i]);
    for (size_t j = 0; j < columns_; ++j) {
      Row row(columns_, 0);
      row[j] = -1;
      add(std::move(row), 0);
    }
  }

  std::optional<Corner> best() {
    choose(0);
    return best_;
  }

 private:
  void add(Row row, double bound) {
    double largest = 0;
    for (const double value : row) largest = std::max(largest, std::abs(value));
    row.push_back(bound);
    if (largest == 0) return;  // without a variable
    for (double& value : row) value /= largest;
    all_.push_back(std::move(row));
  }

  void choose(size_t next) {
    if (taken_.size() == columns_) return look();
    if (all_.size() - next < columns_ - taken_.size()) return;
    Row row = all_[next];
    for (size_t k = 0; k < taken_.size(); ++k) {
      const double factor = row[pivots_[k]];
      for (size_t j = 0; factor != 0 && j <= columns_; ++j) row[j] -= factor * taken_[k][j];
    }
    size_t pivot = 0;
    for (size_t j = 1; j < columns_; ++j) pivot = std::abs(row[j]) > std::abs(row[pivot]) ? j : pivot;
    if (std::abs(row[pivot]) > kSingular) {
      const double scale = row[pivot];
      for (double& value : row) value /= scale;
      taken_.push_back(std::move(row));
      pivots_.push_back(pivot);
      choose(next + 1);
      taken_.pop_back();
      pivots_.pop_back();
    }
    choose(next + 1);
  }

  void look() {
    Row x(columns_, 0);
    for (size_t k = columns_; k-- > 0;) {
      double value = taken_[k][columns_];
      for (size_t later = k + 1; later < columns_; ++later) value -= taken_[k][pivots_[later]] * x[pivots_[later]];
      x[pivots_[k]] = value;
    }
    double value = 0;
    for (size_t j = 0; j < columns_; ++j) value += program_.objective[j] * x[j];
    if (best_.has_value() && value <= best_->value) return;
    for (const Row& row : all_) {
      double sum = 0;
      for (size_t j = 0; j < columns_; ++j) sum += row[j] * x[j];
      if (sum > row[columns_] + kBroken * std::max(1.0, std::abs(row[columns_]))) return;
    }
    best_ = Corner{value, std::move(x)};
  }

  const SmallProgram& program_;
  size_t columns_;
  std::vector<Row> all_, taken_;
  std::vector<size_t> pivots_;
  std::optional<Corner> best_;
};

}  // namespace

void SmallProgram::at_most(std::vector<double> row, double bound) {
  rows.push_back(std::move(row));
  bounds.push_back(bound);
}

void SmallProgram::at_least(std::vector<double> row, double bound) {
  for (double& value : row) value = -value;
  at_most(std::move(row), -bound);
}

std::optional<Corner> best_corner(const SmallProgram& program) { return Corners(program).best(); }

}  // namespace scalai::policy::small
