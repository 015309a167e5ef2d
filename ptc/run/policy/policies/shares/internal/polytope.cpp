#include "ptc/run/policy/policies/shares/internal/polytope.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::policy::internal {
namespace {

constexpr double kNothing = 1e-9;

void add_columns(const ShareProblem& problem, Polytope& result) {
  const size_t types = problem.gpus.size();
  for (const ShareJob& job : problem.jobs) {
    std::vector<int>& columns = result.alone.emplace_back(types, -1);
    std::vector<Term>& rate = result.rates.emplace_back();
    std::vector<Term>& time = result.times.emplace_back();
    for (size_t j = 0; j < types; ++j) {
      if (job.rates[j] > 0) {
        columns[j] = result.program.column({});
        rate.push_back({columns[j], job.rates[j]});
        time.push_back({columns[j], 1});
      }
    }
  }
  for (const SharePair& pair : problem.pairs) {
    const int column = result.program.column({});
    result.paired.push_back(column);
    for (const auto& [member, member_rate] :
         {std::pair(pair.first, pair.first_rate), {pair.second, pair.second_rate}}) {
      const auto m = static_cast<size_t>(member);
      result.rates[m].push_back({column, member_rate / problem.jobs[m].count});
      result.times[m].push_back({column, 1.0 / problem.jobs[m].count});
    }
  }
}

// Σ X <= 1 for every job.
void add_time_rows(Polytope& result) {
  for (std::vector<Term> terms : result.times) {
    if (result.time >= 0) terms.push_back({result.time, -1});
    result.program.at_most(terms, result.time >= 0 ? 0 : 1);
  }
}

void add_capacity_rows(const ShareProblem& problem, Polytope& result) {
  const size_t types = problem.gpus.size();
  std::vector<std::vector<Term>> used(types);
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    for (size_t j = 0; j < types; ++j) {
      const double gpus = static_cast<double>(problem.jobs[m].gpus) * problem.jobs[m].count;
      if (result.alone[m][j] >= 0) used[j].push_back({result.alone[m][j], gpus});
    }
  }
  for (size_t p = 0; p < problem.pairs.size(); ++p) {
    const SharePair& pair = problem.pairs[p];
    const double gpus = problem.jobs[static_cast<size_t>(pair.first)].gpus;
    used[static_cast<size_t>(pair.type.value)].push_back({result.paired[p], gpus});
  }
  for (size_t j = 0; j < types; ++j) {
    const double gpus = problem.gpus[j];
    if (result.time >= 0) used[j].push_back({result.time, -gpus});
    result.program.at_most(used[j], result.time >= 0 ? 0 : gpus);
  }
}

}  // namespace

double pairs_of(const ShareProblem& problem, const SharePair& pair) {
  const double first = problem.jobs[static_cast<size_t>(pair.first)].count;
  return pair.first == pair.second ? first * (first - 1) / 2
                                   : first * problem.jobs[static_cast<size_t>(pair.second)].count;
}

Polytope polytope(const ShareProblem& problem, Program::Sense sense, bool times) {
  Polytope result{.program = Program(sense), .alone = {}, .paired = {}, .rates = {}, .times = {}, .time = -1};
  add_columns(problem, result);
  if (times) result.time = result.program.column({});
  add_time_rows(result);
  add_capacity_rows(problem, result);
  return result;
}

Shares shares_of(const ShareProblem& problem, const Polytope& polytope, const Solution& solution) {
  const double scale = polytope.time >= 0 ? solution.values[static_cast<size_t>(polytope.time)] : 1;
  const auto share = [&](int column, double among = 1) {
    const double value = column < 0 || scale <= 0 ? 0 : solution.values[static_cast<size_t>(column)] / scale / among;
    return value < kNothing ? 0 : std::min(value, 1.0);
  };
  Shares shares;
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    std::vector<double>& row = shares.alone.emplace_back();
    for (int column : polytope.alone[m]) row.push_back(share(column));
  }
  for (size_t p = 0; p < problem.pairs.size(); ++p)
    shares.paired.push_back(share(polytope.paired[p], pairs_of(problem, problem.pairs[p])));
  shares.objective = solution.objective;
  shares.effort = solution.effort;
  return shares;
}

absl::StatusOr<Shares> settle(const ShareProblem& problem, Polytope& polytope, const std::vector<double>& weights,
                              const Basis& start) {
  SCALAI_CHECK(polytope.time < 0, "ties are broken in shares, not in times");
  Program& program = polytope.program;
  std::vector<double> objective(static_cast<size_t>(program.columns()));
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    for (const Term& term : polytope.rates[m]) {
      objective[static_cast<size_t>(term.column)] += weights[m] * problem.jobs[m].count * term.coefficient;
    }
  }
  for (int column = 0; column < program.columns(); ++column) {
    program.set_objective(column, objective[static_cast<size_t>(column)]);
  }
  SCALAI_ASSIGN_OR_RETURN(const Solution solution, program.solve(&start));
  return shares_of(problem, polytope, solution);
}

}  // namespace scalai::policy::internal
