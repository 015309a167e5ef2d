#include "ptc/run/policy/policies/shares/allocation.h"

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/classes.h"
#include "ptc/run/policy/policies/shares/internal/polytope.h"

namespace scalai::policy {
namespace {

using internal::Polytope;

double total_gpus(const ShareProblem& problem) {
  return std::accumulate(problem.gpus.begin(), problem.gpus.end(), 0.0);
}

void add_pairs_of(ShareProblem& problem, std::span<const Job* const> jobs, const Throughput& throughput, size_t type) {
  const GpuType id(static_cast<int64_t>(type));
  for (size_t a = 0; a < jobs.size(); ++a) {
    for (size_t b = a + 1; b < jobs.size(); ++b) {
      const ShareJob& first = problem.jobs[a];
      const ShareJob& second = problem.jobs[b];
      if (first.gpus != second.gpus || first.rates[type] <= 0 || second.rates[type] <= 0) continue;
      const auto [first_rate, second_rate] = throughput.shared_rate(*jobs[a], *jobs[b], id, first.gpus);
      if (first_rate > 0 && second_rate > 0) {
        problem.pairs.push_back({static_cast<int>(a), static_cast<int>(b), id, first_rate, second_rate});
      }
    }
  }
}

}  // namespace

bool ShareJob::runs() const {
  return std::any_of(rates.begin(), rates.end(), [](double rate) { return rate > 0; });
}

ShareProblem share_problem(std::span<const Job> jobs, const Fleet& fleet, const Throughput& throughput, bool packing) {
  ShareProblem problem;
  for (size_t j = 0; j < fleet.types.size(); ++j) {
    problem.gpus.push_back(fleet.gpus(GpuType(static_cast<int64_t>(j))));
    problem.prices.push_back(fleet.types[j].price_per_gpu_hour);
  }
  std::vector<const Job*> specs;
  for (const Job& job : jobs) {
    ShareJob& entry = problem.jobs.emplace_back();
    entry.id = JobId(static_cast<int64_t>(specs.size()));
    entry.gpus = job.gpus;
    entry.weight = job.weight;
    entry.remaining = job.work;
    entry.time_left_s = job.deadline_s - job.submit_s;
    entry.entity = job.entity;
    for (size_t j = 0; j < fleet.types.size(); ++j) {
      const bool fits = job.gpus <= problem.gpus[j];
      entry.rates.push_back(fits ? throughput.rate(job, GpuType(static_cast<int64_t>(j)), job.gpus, 0).per_s : 0);
    }
    specs.push_back(&job);
  }
  if (packing) add_pairs(problem, specs, throughput);
  return problem;
}

void add_pairs(ShareProblem& problem, std::span<const Job* const> jobs, const Throughput& throughput) {
  SCALAI_CHECK(jobs.size() == problem.jobs.size(), "one spec a job");
  for (size_t j = 0; j < problem.gpus.size(); ++j) add_pairs_of(problem, jobs, throughput, j);
}

std::vector<double> throughputs(const ShareProblem& problem, const Shares& shares) {
  std::vector<double> result(problem.jobs.size());
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    for (size_t j = 0; j < problem.gpus.size(); ++j) result[m] += problem.jobs[m].rates[j] * shares.alone[m][j];
  }
  for (size_t p = 0; p < shares.paired.size(); ++p) {
    const SharePair& pair = problem.pairs[p];
    result[static_cast<size_t>(pair.first)] += pair.first_rate * shares.paired[p];
    result[static_cast<size_t>(pair.second)] += pair.second_rate * shares.paired[p];
  }
  return result;
}

std::vector<double> normalisers(const ShareProblem& problem) {
  const double total = total_gpus(problem);
  std::vector<double> result(problem.jobs.size());
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    const ShareJob& job = problem.jobs[m];
    double equal = 0;
    for (size_t j = 0; j < problem.gpus.size(); ++j) equal += job.rates[j] * problem.gpus[j] / total;
    result[m] = equal > 0 ? job.gpus / job.weight / equal : 0;
  }
  return result;
}

namespace {

absl::StatusOr<Shares> max_min_of(const ShareProblem& problem) {
  Polytope space = internal::polytope(problem, Program::Sense::kMaximise, false);
  const std::vector<double> scale = normalisers(problem);
  const int least = space.program.column({1});
  bool any = false;
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    if (scale[m] <= 0) continue;
    any = true;
    std::vector<Term> terms = space.rates[m];
    for (Term& term : terms) term.coefficient *= scale[m];
    terms.push_back({least, -1});
    space.program.at_least(terms, 0);
  }
  if (!any) {
    return proportional_shares(problem);  // nobody can run: all are 0
  }
  SCALAI_ASSIGN_OR_RETURN(const Solution best, space.program.solve());
  space.program.set_bounds(least, internal::kept(best.objective), kUnbounded);
  auto shares = internal::settle(problem, space, scale, best.basis);
  if (infeasible(shares.status())) {
    shares = internal::shares_of(problem, space, best);  // the optimum, within the solver's tolerance of its rows
    shares->effort = {};
  }
  SCALAI_RETURN_IF_ERROR(shares.status());
  shares->objective = best.objective;
  shares->effort += best.effort;
  return shares;
}

}  // namespace

absl::StatusOr<Shares> max_min_shares(const ShareProblem& problem) {
  return internal::solve_by_classes(problem, false, max_min_of);
}

Shares isolated_shares(const ShareProblem& problem) {
  Shares shares;
  shares.paired.resize(problem.pairs.size());
  const auto jobs = static_cast<double>(problem.jobs.size());
  for (const ShareJob& job : problem.jobs) {
    std::vector<double>& row = shares.alone.emplace_back();
    double sum = 0;
    for (size_t j = 0; j < problem.gpus.size(); ++j) {
      row.push_back(problem.gpus[j] / jobs / job.gpus);
      sum += row.back();
    }
    for (size_t j = 0; j < row.size(); ++j) row[j] = job.rates[j] > 0 ? row[j] / std::max(1.0, sum) : 0;
  }
  return shares;
}

Shares proportional_shares(const ShareProblem& problem) {
  Shares shares;
  shares.paired.resize(problem.pairs.size());
  const double total = total_gpus(problem);
  double wanted = 0;  // GPUs that all jobs together want; each type's part of them is its part of all GPUs
  for (const ShareJob& job : problem.jobs) wanted += job.runs() ? job.gpus : 0;
  const double scale = std::min(1.0, wanted > 0 ? total / wanted : 1.0);
  for (const ShareJob& job : problem.jobs) {
    std::vector<double>& row = shares.alone.emplace_back();
    for (size_t j = 0; j < problem.gpus.size(); ++j) {
      row.push_back(job.rates[j] > 0 ? scale * problem.gpus[j] / total : 0);
    }
  }
  return shares;
}

}  // namespace scalai::policy
