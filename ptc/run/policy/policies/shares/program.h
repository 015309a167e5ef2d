#pragma once
// Linear and integer programs; the only adapter of CLP and CBC. Columns and rows are sparse and numbered in the order
// of their calls; the solution uses the same numbers.
//
// Deterministic: one thread, a fixed pivoting seed, no time limits but those that solve_within() is given. The same
// program and start give the same vertex, bit by bit, on the same build of CLP. Values; one thread for each program.
//
// An assertion of CLP would end the process. The one that was seen to fail cannot fail here, because Matrix in
// program.cpp takes away its cause; so no solve needs a child process. CLP's exceptions become a Status.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::policy {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct Term {
  int column = 0;
  double coefficient = 0;
};

// End state of a solve and possible start of the next: one state for each column and row (CLP's own numbers). Empty =
// none.
struct Basis {
  std::vector<uint8_t> columns, rows;
  bool empty() const { return columns.empty() && rows.empty(); }
};

// What solutions took.
struct Effort {
  int64_t programs = 0;
  int64_t pivots = 0;   // simplex pivots (LP) or branch-and-bound nodes (integer)
  int64_t retries = 0;  // solves that failed and went well by another algorithm
  Effort& operator+=(const Effort& more) {
    programs += more.programs;
    pivots += more.pivots;
    retries += more.retries;
    return *this;
  }
};

struct Solution {
  double objective = 0;
  std::vector<double> values;  // by column
  // By row: gain of the objective per unit of the active bound; 0 for integer programs.
  std::vector<double> row_duals;
  std::vector<double> reduced_costs;  // by column; 0 for integer programs
  Basis basis;                        // empty for integer programs
  Effort effort;                      // of this program
  double gap = 0;                     // integer programs: at most so far from the optimum, relative
};

class Program {
 public:
  enum class Sense : uint8_t { kMaximise, kMinimise };
  struct Column {
    double objective = 0;
    double lower = 0;
    double upper = kUnbounded;
    bool integer = false;
  };
  explicit Program(Sense sense = Sense::kMaximise) : sense_(sense) {}

  int column(const Column& column);  // returns its number: 0, 1, 2 …
  int binary(double objective) { return column({objective, 0, 1, true}); }
  // Adds lower <= sum of terms <= upper and returns its number. -kUnbounded and kUnbounded leave a side open. Terms of
  // a repeated column are added. `terms` is copied.
  int row(std::span<const Term> terms, double lower, double upper);
  int at_most(std::span<const Term> terms, double upper) { return row(terms, -kUnbounded, upper); }
  int at_least(std::span<const Term> terms, double lower) { return row(terms, lower, kUnbounded); }
  int equal(std::span<const Term> terms, double value) { return row(terms, value, value); }

  void set_objective(int column, double objective) { columns_[static_cast<size_t>(column)].objective = objective; }
  void set_bounds(int column, double lower, double upper);
  void set_row_bounds(int row, double lower, double upper);

  int columns() const { return static_cast<int>(columns_.size()); }
  int rows() const { return static_cast<int>(row_lower_.size()); }

  // Solves the program. `start`: the basis of a solution of a program with the same columns and rows (others are
  // ignored); it saves pivots if only bounds or the objective changed. Integer programs are solved to the optimum
  // (relative gap 1e-9), or as far as 200,000 nodes go (Solution::gap), and ignore `start`. A linear program on which
  // the solver fails is solved by other algorithms. Errors: FailedPrecondition = infeasible (see infeasible()),
  // OutOfRange = unbounded, ResourceExhausted = no solution of an integer program within the limits, InvalidArgument =
  // no columns, Internal = all algorithms failed.
  absl::StatusOr<Solution> solve(const Basis* start = nullptr) const;
  // An integer program as far as the limits go: then the best solution that was found, with its gap.
  struct Limits {
    double gap = 1e-9;            // relative
    double seconds = kUnbounded;  // a bound makes the solution depend on the machine's speed
    int nodes = 200'000;
  };
  absl::StatusOr<Solution> solve_within(const Limits& limits) const;

 private:
  friend struct ProgramAccess;
  Sense sense_;
  std::vector<Column> columns_;
  std::vector<double> row_lower_, row_upper_;
  std::vector<int64_t> row_starts_ = {0};
  std::vector<Term> terms_;         // by row
  std::vector<int64_t> last_term_;  // by column: its last index in terms_
};

// True if solve() found the program infeasible.
bool infeasible(const absl::Status& status);

}  // namespace scalai::policy
