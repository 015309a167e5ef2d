#include "ptc/run/policy/policies/shares/water_filling.h"

#include <algorithm>
#include <array>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/classes.h"
#include "ptc/run/policy/policies/shares/internal/polytope.h"

namespace scalai::policy {
namespace {

using internal::Polytope;

constexpr double kRises = 1e-5;  // relative: less is standing still

// The shares of the last program are a point of the next, up to rounding: where the solver finds none, levels are kept
// a little less tightly. Far less than what counts as a rise.
constexpr std::array<double, 3> kSlacks = {internal::kSlack, 1e-8, 1e-7};

template <typename Work>
auto with_slack(const Work& work) {
  auto result = work(kSlacks.front());
  for (size_t i = 1; i < kSlacks.size() && infeasible(result.status()); ++i) result = work(kSlacks[i]);
  return result;
}

// One filling: levels are normalised throughputs, unweighted, by job.
struct Filling {
  const ShareProblem& problem;
  const Hierarchy& hierarchy;
  std::vector<double> scale = {};  // iterations/s → level
  std::vector<double> level = {};
  std::vector<uint8_t> frozen = {};
  Shares shares = {};
  Effort effort = {};

  std::vector<double> weights() const;
  Polytope keeping_levels(double slack) const;
  std::vector<Term> level_terms(const Polytope& space, size_t job) const;
  absl::StatusOr<double> rise(const std::vector<double>& weights, double slack);
  absl::StatusOr<std::vector<size_t>> stuck_of(const std::vector<size_t>& jobs, double slack);
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
    sum->second += result[m] * job.count;
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

Polytope Filling::keeping_levels(double slack) const {
  Polytope space = internal::polytope(problem, Program::Sense::kMaximise, false);
  for (size_t m = 0; m < level.size(); ++m) {
    if (level[m] > 0) space.program.at_least(level_terms(space, m), internal::kept(level[m], slack));
  }
  return space;
}

// The jobs with a weight rise together, each by weight / gpus for one unit of water.
absl::StatusOr<double> Filling::rise(const std::vector<double>& weights, double slack) {
  Polytope space = keeping_levels(slack);
  const int water = space.program.column({1});
  for (size_t m = 0; m < level.size(); ++m) {
    if (weights[m] > 0) {
      std::vector<Term> terms = level_terms(space, m);
      terms.push_back({water, -weights[m] / problem.jobs[m].gpus});
      space.program.at_least(terms, internal::kept(level[m], slack));
    }
  }
  SCALAI_ASSIGN_OR_RETURN(const Solution best, space.program.solve());
  space.program.set_bounds(water, std::max(0.0, internal::kept(best.objective, slack)), kUnbounded);
  SCALAI_ASSIGN_OR_RETURN(shares, internal::settle(problem, space, normalisers(problem), best.basis));
  effort += best.effort;
  effort += shares.effort;
  for (size_t m = 0; m < level.size(); ++m) level[m] += weights[m] / problem.jobs[m].gpus * best.objective;
  return best.objective;
}

// Those of the jobs that do not rise where all of them may.
absl::StatusOr<std::vector<size_t>> Filling::stuck_of(const std::vector<size_t>& jobs, double slack) {
  Polytope space = keeping_levels(slack);
  std::vector<int> gains;
  for (const size_t m : jobs) {
    const int gain = space.program.column({1 / std::max(level[m], 1e-12), 0, std::max(level[m], 1e-12) * 100 * kRises});
    gains.push_back(gain);
    std::vector<Term> terms = level_terms(space, m);
    terms.push_back({gain, -1});
    space.program.at_least(terms, internal::kept(level[m], slack));
  }
  SCALAI_ASSIGN_OR_RETURN(const Solution solution, space.program.solve());
  effort += solution.effort;
  std::vector<size_t> stuck;
  for (size_t k = 0; k < jobs.size(); ++k) {
    const double gain = solution.values[static_cast<size_t>(gains[k])];
    if (gain <= kRises * std::max(level[jobs[k]], 1e-12)) stuck.push_back(jobs[k]);
  }
  return stuck;
}

// Freezes the jobs with a weight that cannot rise; true if there was one. If two jobs can rise each for itself, they
// can rise together (half of each way), so that each program finds at least one more that can, until none of the rest
// does.
absl::StatusOr<bool> Filling::freeze(const std::vector<double>& weights) {
  std::vector<size_t> stuck;
  for (size_t m = 0; m < level.size(); ++m) {
    if (weights[m] > 0) stuck.push_back(m);
  }
  while (!stuck.empty()) {
    SCALAI_ASSIGN_OR_RETURN(std::vector<size_t> rest, with_slack([&](double slack) { return stuck_of(stuck, slack); }));
    if (rest.size() == stuck.size()) break;
    stuck = std::move(rest);
  }
  for (size_t m : stuck) frozen[m] = 1;
  return !stuck.empty();
}

absl::StatusOr<Shares> filled(const ShareProblem& problem, const Hierarchy& hierarchy) {
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
    SCALAI_ASSIGN_OR_RETURN(const double water, with_slack([&](double slack) { return filling.rise(weights, slack); }));
    first = first < 0 ? water : first;
    SCALAI_ASSIGN_OR_RETURN(const bool any, filling.freeze(weights));
    if (!any) {
      break;  // within the tolerance nobody is held back: the next rise would be nothing
    }
  }
  filling.shares.objective = std::max(first, 0.0);
  filling.shares.effort = filling.effort;
  return std::move(filling.shares);
}

}  // namespace

absl::StatusOr<Shares> water_filling_shares(const ShareProblem& problem, const Hierarchy& hierarchy) {
  const bool in_turn = hierarchy.entities && hierarchy.inside == Hierarchy::Inside::kFifo;  // equal jobs are not equal
  if (in_turn) return filled(problem, hierarchy);
  return internal::solve_by_classes(problem, hierarchy.entities,
                                    [&hierarchy](const ShareProblem& of) { return filled(of, hierarchy); });
}

}  // namespace scalai::policy
