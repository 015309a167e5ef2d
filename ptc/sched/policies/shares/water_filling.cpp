#include "ptc/sched/policies/shares/water_filling.h"

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/sched/policies/shares/internal/polytope.h"

namespace scalai::sched {
namespace {

using internal::Polytope;

constexpr double kRises = 1e-5;  // relative: less is standing still

// One filling: levels are normalised throughputs, unweighted, by job.
struct Filling {
  const ShareProblem& problem;
  const Hierarchy& hierarchy;
  std::vector<double> scale = {};  // iterations/s → level
  std::vector<double> level = {};
  std::vector<uint8_t> frozen = {};
  Shares shares = {};
  int64_t programs = 0;
  int64_t pivots = 0;

  std::vector<double> weights() const;
  Polytope keeping_levels() const;
  std::vector<Term> level_terms(const Polytope& space, size_t job) const;
  absl::StatusOr<double> rise(const std::vector<double>& weights);
  absl::StatusOr<bool> freeze(const std::vector<double>& weights);
};

// Of the jobs that are not frozen, in their entity; 0: waits for others of its entity.
std::vector<double> Filling::weights() const {
  std::vector<double> result(level.size());
  std::map<std::string, double> sums;
  for (size_t m = 0; m < level.size(); ++m) {
    const ShareJob& job = problem.jobs[m];
    if (frozen[m] != 0) continue;
    const auto [sum, first] = sums.emplace(job.entity, 0.0);
    const bool waits = hierarchy.entities && hierarchy.inside == Hierarchy::Inside::kFifo && !first;
    result[m] = waits ? 0 : job.weight;
    sum->second += result[m];
  }
  if (!hierarchy.entities) return result;
  for (size_t m = 0; m < level.size(); ++m) {
    if (result[m] > 0) {
      const std::string& entity = problem.jobs[m].entity;
      const auto weight = hierarchy.weights.find(entity);
      result[m] *= (weight == hierarchy.weights.end() ? 1.0 : weight->second) / sums[entity];
    }
  }
  return result;
}

std::vector<Term> Filling::level_terms(const Polytope& space, size_t job) const {
  std::vector<Term> terms = space.rates[job];
  for (Term& term : terms) term.coefficient *= scale[job];
  return terms;
}

Polytope Filling::keeping_levels() const {
  Polytope space = internal::polytope(problem, Program::Sense::kMaximise, false);
  for (size_t m = 0; m < level.size(); ++m) {
    if (level[m] > 0) space.program.at_least(level_terms(space, m), internal::kept(level[m]));
  }
  return space;
}

// The jobs with a weight rise together, each by weight / gpus for one unit of water.
absl::StatusOr<double> Filling::rise(const std::vector<double>& weights) {
  Polytope space = keeping_levels();
  const int water = space.program.column({1});
  for (size_t m = 0; m < level.size(); ++m) {
    if (weights[m] > 0) {
      std::vector<Term> terms = level_terms(space, m);
      terms.push_back({water, -weights[m] / problem.jobs[m].gpus});
      space.program.at_least(terms, internal::kept(level[m]));
    }
  }
  SCALAI_ASSIGN_OR_RETURN(const Solution best, space.program.solve());
  space.program.set_bounds(water, std::max(0.0, internal::kept(best.objective)), kUnbounded);
  SCALAI_ASSIGN_OR_RETURN(shares, internal::settle(problem, space, normalisers(problem), best.basis));
  programs += 2;
  pivots += best.iterations + shares.pivots;
  for (size_t m = 0; m < level.size(); ++m) level[m] += weights[m] / problem.jobs[m].gpus * best.objective;
  return best.objective;
}

// Freezes the jobs with a weight that cannot rise; true if there was one. If two jobs can rise each for itself, they can rise
// together (half of each way), so that each program finds at least one more that can, until none of the rest does.
absl::StatusOr<bool> Filling::freeze(const std::vector<double>& weights) {
  std::vector<size_t> stuck;
  for (size_t m = 0; m < level.size(); ++m) {
    if (weights[m] > 0) stuck.push_back(m);
  }
  while (!stuck.empty()) {
    Polytope space = keeping_levels();
    std::vector<int> gains;
    for (size_t m : stuck) {
      const int gain =
          space.program.column({1 / std::max(level[m], 1e-12), 0, std::max(level[m], 1e-12) * 100 * kRises});
      gains.push_back(gain);
      std::vector<Term> terms = level_terms(space, m);
      terms.push_back({gain, -1});
      space.program.at_least(terms, internal::kept(level[m]));
    }
    SCALAI_ASSIGN_OR_RETURN(const Solution solution, space.program.solve());
    programs += 1;
    pivots += solution.iterations;
    std::vector<size_t> rest;
    for (size_t k = 0; k < stuck.size(); ++k) {
      if (solution.values[static_cast<size_t>(gains[k])] <= kRises * std::max(level[stuck[k]], 1e-12)) {
        rest.push_back(stuck[k]);
      }
    }
    if (rest.size() == stuck.size()) break;
    stuck = std::move(rest);
  }
  for (size_t m : stuck) frozen[m] = 1;
  return !stuck.empty();
}

}  // namespace

absl::StatusOr<Shares> water_filling_shares(const ShareProblem& problem, const Hierarchy& hierarchy) {
  Filling filling{.problem = problem, .hierarchy = hierarchy};
  const std::vector<double> normaliser = normalisers(problem);
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    const ShareJob& job = problem.jobs[m];
    filling.scale.push_back(normaliser[m] * job.weight / job.gpus);
    filling.level.push_back(0);
    filling.frozen.push_back(job.runs() ? 0 : 1);
  }
  filling.shares = proportional_shares(problem);  // stays where nobody can run
  double first = -1;
  while (true) {
    const std::vector<double> weights = filling.weights();
    if (std::none_of(weights.begin(), weights.end(), [](double weight) { return weight > 0; })) break;
    SCALAI_ASSIGN_OR_RETURN(const double water, filling.rise(weights));
    first = first < 0 ? water : first;
    SCALAI_ASSIGN_OR_RETURN(const bool any, filling.freeze(weights));
    if (!any) {
      break;  // within the tolerance nobody is held back: the next rise would be nothing
    }
  }
  filling.shares.objective = std::max(first, 0.0);
  filling.shares.programs = filling.programs;
  filling.shares.pivots = filling.pivots;
  return std::move(filling.shares);
}

}  // namespace scalai::sched
