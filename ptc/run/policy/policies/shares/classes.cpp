#include "ptc/run/policy/policies/shares/classes.h"

#include <map>
#include <numeric>
#include <tuple>

#include "ptc/base/status.h"

namespace scalai::policy::internal {
namespace {

size_t at(int index) { return static_cast<size_t>(index); }

std::vector<int> equal_alone(const ShareProblem& problem, bool by_entity) {
  std::map<std::tuple<int, double, std::vector<double>, std::string>, int> known;
  std::vector<int> of;
  for (const ShareJob& job : problem.jobs) {
    const auto key = std::tuple(job.gpus, job.weight, job.rates, by_entity ? job.entity : std::string());
    of.push_back(known.emplace(key, static_cast<int>(known.size())).first->second);
  }
  return of;
}

int64_t pairs_between(int first, int second, const ShareProblem& merged) {
  const int64_t n = merged.jobs[at(first)].count;
  return first == second ? n * (n - 1) / 2 : n * merged.jobs[at(second)].count;
}

// Pairs of classes; false: some pair is not as fast as the others of its classes, or is not there.
bool merge_pairs(const ShareProblem& problem, Classes& classes) {
  std::map<std::tuple<int64_t, int, int>, int> known;
  std::vector<int64_t> seen;
  for (const SharePair& pair : problem.pairs) {
    SharePair merged = pair;
    merged.first = classes.of[at(pair.first)];
    merged.second = classes.of[at(pair.second)];
    if (merged.first > merged.second) {
      std::swap(merged.first, merged.second);
      std::swap(merged.first_rate, merged.second_rate);
    }
    if (merged.first == merged.second && merged.first_rate != merged.second_rate) return false;
    const auto key = std::tuple(merged.type.value, merged.first, merged.second);
    const auto [found, first] = known.emplace(key, static_cast<int>(known.size()));
    if (first) {
      classes.problem.pairs.push_back(merged);
      seen.push_back(0);
    }
    const SharePair& other = classes.problem.pairs[at(found->second)];
    if (other.first_rate != merged.first_rate || other.second_rate != merged.second_rate) return false;
    ++seen[at(found->second)];
    classes.pair_of.push_back(found->second);
  }
  for (size_t p = 0; p < seen.size(); ++p) {
    const SharePair& pair = classes.problem.pairs[p];
    if (seen[p] != pairs_between(pair.first, pair.second, classes.problem)) return false;
  }
  return true;
}

Classes each_alone(const ShareProblem& problem) {
  Classes classes{.problem = problem, .of = {}, .pair_of = {}};
  classes.of.resize(problem.jobs.size());
  std::iota(classes.of.begin(), classes.of.end(), 0);
  classes.pair_of.resize(problem.pairs.size());
  std::iota(classes.pair_of.begin(), classes.pair_of.end(), 0);
  return classes;
}

}  // namespace

Classes classes_of(const ShareProblem& problem, bool by_entity) {
  Classes classes{.problem = {.gpus = problem.gpus, .prices = problem.prices, .jobs = {}, .pairs = {}},
                  .of = equal_alone(problem, by_entity),
                  .pair_of = {}};
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    SCALAI_CHECK(problem.jobs[m].count == 1, "classes of jobs, not of classes");
    if (at(classes.of[m]) == classes.problem.jobs.size()) {
      classes.problem.jobs.push_back(problem.jobs[m]);
    } else {
      ++classes.problem.jobs[at(classes.of[m])].count;
    }
  }
  if (classes.problem.jobs.size() == problem.jobs.size() || !merge_pairs(problem, classes)) return each_alone(problem);
  return classes;
}

Shares of_each(const Classes& classes, const Shares& shares) {
  Shares result = shares;
  result.alone.clear();
  result.paired.clear();
  for (const int one : classes.of) result.alone.push_back(shares.alone[at(one)]);
  for (const int pair : classes.pair_of) result.paired.push_back(shares.paired[at(pair)]);
  return result;
}

absl::StatusOr<Shares> solve_by_classes(const ShareProblem& problem, bool by_entity,
                                        const std::function<absl::StatusOr<Shares>(const ShareProblem&)>& solve) {
  const Classes classes = classes_of(problem, by_entity);
  if (classes.problem.jobs.size() == problem.jobs.size()) return solve(problem);
  SCALAI_ASSIGN_OR_RETURN(const Shares shares, solve(classes.problem));
  return of_each(classes, shares);
}

}  // namespace scalai::policy::internal
