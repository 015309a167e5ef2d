// The other objectives of allocation.h: makespan, finish-time fairness, sums.
#include <fmt/core.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/allocation.h"
#include "ptc/run/policy/policies/shares/classes.h"
#include "ptc/run/policy/policies/shares/internal/polytope.h"

namespace scalai::policy {
namespace {

using internal::Polytope;
using Sense = Program::Sense;

constexpr double kRhoTolerance = 1e-6;
constexpr int kMostSteps = 200;

bool unfinished(const ShareJob& job) { return job.runs() && job.remaining > 0; }

// Shares that give every job at least the throughput it needs (0: none), with the tie-break. Infeasible where there are
// none.
absl::StatusOr<Shares> at_least_shares(const ShareProblem& problem, const std::vector<double>& needs,
                                       const std::vector<double>& weights) {
  Polytope space = internal::polytope(problem, Sense::kMaximise, false);
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    if (needs[m] > 0) space.program.at_least(space.rates[m], needs[m]);
  }
  return internal::settle(problem, space, weights, {});
}

// The largest part of its need that every job can be given at once: needs can be met where this is >= 1.
struct Part {
  double part = 0;
  Shares shares;
  Basis basis;  // where the next of these may start
};
absl::StatusOr<Part> largest_part(const ShareProblem& problem, const std::vector<double>& needs, const Basis& start) {
  Polytope space = internal::polytope(problem, Sense::kMaximise, false);
  const int part = space.program.column({1, 0, 2});  // beyond 1 it does not matter
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    if (needs[m] > 0) {
      std::vector<Term> terms = space.rates[m];
      for (Term& term : terms) term.coefficient /= needs[m];
      terms.push_back({part, -1});
      space.program.at_least(terms, 0);
    }
  }
  SCALAI_ASSIGN_OR_RETURN(Solution solution, space.program.solve(start.empty() ? nullptr : &start));
  return Part{solution.objective, internal::shares_of(problem, space, solution), std::move(solution.basis)};
}

// F_m: age and time to go of job m on its isolated share.
std::vector<double> isolated_finish(const ShareProblem& problem) {
  const std::vector<double> rates = throughputs(problem, isolated_shares(problem));
  std::vector<double> result;
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    const ShareJob& job = problem.jobs[m];
    result.push_back(rates[m] > 0 ? job.isolated_s + job.remaining / rates[m] : kNever);
  }
  return result;
}

double worst_ratio(const ShareProblem& problem, const Shares& shares, const std::vector<double>& isolated) {
  const std::vector<double> rates = throughputs(problem, shares);
  double worst = 0;
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    const ShareJob& job = problem.jobs[m];
    if (unfinished(job)) {
      worst = std::max(worst, rates[m] > 0 ? (job.age_s + job.remaining / rates[m]) / isolated[m] : kNever);
    }
  }
  return worst;
}

// thr_m(X) >= R_m / (rho F_m - age_m)
std::vector<double> needs_for_ratio(const ShareProblem& problem, const std::vector<double>& isolated, double rho) {
  std::vector<double> needs;
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    const ShareJob& job = problem.jobs[m];
    needs.push_back(unfinished(job) ? job.remaining / (rho * isolated[m] - job.age_s) : 0);
  }
  return needs;
}

absl::StatusOr<Polytope> sum_polytope(const ShareProblem& problem, Value value) {
  Polytope space = internal::polytope(problem, Sense::kMaximise, false);
  const bool dollars = value == Value::kThroughputPerDollar;
  for (size_t j = 0; dollars && j < problem.gpus.size(); ++j) {
    if (j >= problem.prices.size() || !(problem.prices[j] > 0)) {
      return invalid(fmt::format("GPU type {} of {} has no price: throughput per dollar needs one for every type",
                                 j + 1, problem.gpus.size()));
    }
  }
  const auto worth = [&](double rate, size_t type) { return dollars ? rate / problem.prices[type] : rate; };
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    for (size_t j = 0; j < problem.gpus.size(); ++j) {
      if (space.alone[m][j] >= 0)
        space.program.set_objective(space.alone[m][j], problem.jobs[m].count * worth(problem.jobs[m].rates[j], j));
    }
  }
  for (size_t p = 0; p < problem.pairs.size(); ++p) {
    const SharePair& pair = problem.pairs[p];
    space.program.set_objective(space.paired[p],
                                worth(pair.first_rate + pair.second_rate, static_cast<size_t>(pair.type.value)));
  }
  return space;
}

}  // namespace

absl::StatusOr<Shares> makespan_shares(const ShareProblem& problem) {
  if (std::none_of(problem.jobs.begin(), problem.jobs.end(), unfinished)) return proportional_shares(problem);
  Polytope space = internal::polytope(problem, Sense::kMinimise, true);
  space.program.set_objective(space.time, 1);
  // In parts of the job rather than iterations: one scale for all rows.
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    if (unfinished(problem.jobs[m])) {
      std::vector<Term> terms = space.rates[m];
      for (Term& term : terms) term.coefficient /= problem.jobs[m].remaining;
      space.program.at_least(terms, 1);
    }
  }
  SCALAI_ASSIGN_OR_RETURN(const Solution best, space.program.solve());
  std::vector<double> needs;
  for (const ShareJob& job : problem.jobs) {
    needs.push_back(unfinished(job) ? internal::kept(job.remaining / best.objective) : 0);
  }
  auto shares = at_least_shares(problem, needs, std::vector<double>(needs.size(), 1.0));
  if (infeasible(shares.status())) {
    shares = internal::shares_of(problem, space, best);  // the optimum, within the solver's tolerance of its rows
  }
  SCALAI_RETURN_IF_ERROR(shares.status());
  shares->objective = best.objective;
  shares->effort += best.effort;
  return shares;
}

absl::StatusOr<Shares> finish_time_shares(const ShareProblem& problem) {
  if (std::none_of(problem.jobs.begin(), problem.jobs.end(), unfinished)) return proportional_shares(problem);
  const std::vector<double> isolated = isolated_finish(problem);
  double low = 0;  // rho F_m > age_m for every job
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    low = unfinished(problem.jobs[m]) ? std::max(low, problem.jobs[m].age_s / isolated[m]) : low;
  }
  Shares best = isolated_shares(problem);
  double high = worst_ratio(problem, best, isolated);  // the isolated shares are allowed
  Effort effort;
  Basis start;
  for (int step = 0; step < kMostSteps && high - low > kRhoTolerance * high; ++step) {
    const double rho = (low + high) / 2;
    SCALAI_ASSIGN_OR_RETURN(Part part, largest_part(problem, needs_for_ratio(problem, isolated, rho), start));
    start = std::move(part.basis);
    effort += part.shares.effort;
    if (part.part >= 1) {
      high = std::min(rho, worst_ratio(problem, part.shares, isolated));  // what was found may be better than asked for
      best = std::move(part.shares);
    } else {
      low = rho;
    }
  }
  auto settled = at_least_shares(problem, needs_for_ratio(problem, isolated, high * (1 + 1e-9)), normalisers(problem));
  if (settled.ok()) {
    effort += settled->effort;
    best = *std::move(settled);
  } else if (!infeasible(settled.status())) {
    return settled.status();
  }
  best.objective = worst_ratio(problem, best, isolated);
  best.effort = effort;
  return best;
}

namespace {

absl::StatusOr<Shares> best_sum_of(const ShareProblem& problem, Value value, bool deadlines) {
  SCALAI_ASSIGN_OR_RETURN(Polytope space, sum_polytope(problem, value));
  std::vector<JobId> due;
  std::vector<int> rows;
  for (size_t m = 0; deadlines && m < problem.jobs.size(); ++m) {
    const ShareJob& job = problem.jobs[m];
    if (unfinished(job) && job.time_left_s > 0 && job.time_left_s < kNever) {
      rows.push_back(space.program.at_least(space.rates[m], job.remaining / job.time_left_s));
      due.push_back(job.id);
    }
  }
  if (space.program.columns() == 0) return proportional_shares(problem);
  auto best = space.program.solve();
  bool met = true;
  if (infeasible(best.status())) {
    met = false;
    for (int row : rows) space.program.set_row_bounds(row, 0, kUnbounded);
    best = space.program.solve();
  }
  SCALAI_RETURN_IF_ERROR(best.status());
  Shares shares = internal::shares_of(problem, space, *best);  // a sum leaves few ties: no second program
  if (!met) {
    shares.dropped = due;
    shares.effort.programs += 1;
  }
  return shares;
}

}  // namespace

absl::StatusOr<Shares> throughput_shares(const ShareProblem& problem, Value value, bool deadlines) {
  if (deadlines) return best_sum_of(problem, value, true);
  return internal::solve_by_classes(problem, false,
                                    [value](const ShareProblem& of) { return best_sum_of(of, value, false); });
}

}  // namespace scalai::policy
