#include "ptc/run/policy/policies/shares/pop.h"

#include <fmt/core.h>

#include <algorithm>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

std::vector<int> groups_of(const ShareProblem& problem, const PopOptions& options) {
  std::vector<int> groups;
  for (const ShareJob& job : problem.jobs) groups.push_back(job.id.value % options.groups);
  if (options.split == PopOptions::Split::kRandom) {
    for (size_t k = 0; k < groups.size(); ++k) groups[k] = static_cast<int>(k) % options.groups;
    Random random(options.seed);
    for (size_t k = groups.size(); k > 1; --k) {
      std::swap(groups[k - 1], groups[static_cast<size_t>(random.below(static_cast<int64_t>(k)))]);
    }
  }
  return groups;
}

// Keeps the rates of the types that still have room for the job. False: none is left of those it had.
bool keep_fitting(ShareJob& job, const std::vector<int>& gpus) {
  const bool ran = job.runs();
  for (size_t j = 0; j < gpus.size(); ++j) job.rates[j] = job.gpus <= gpus[j] ? job.rates[j] : 0;
  return job.runs() || !ran;
}

}  // namespace

absl::StatusOr<std::vector<PopPart>> split(const ShareProblem& problem, const PopOptions& options) {
  SCALAI_CHECK(options.groups >= 1, "POP needs a group");
  std::vector<PopPart> parts(static_cast<size_t>(options.groups));
  for (PopPart& part : parts) {
    part.problem.prices = problem.prices;
    for (int gpus : problem.gpus) part.problem.gpus.push_back(gpus / options.groups);
  }
  const std::vector<int> groups = groups_of(problem, options);
  std::vector<int> place(problem.jobs.size());
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    PopPart& part = parts[static_cast<size_t>(groups[m])];
    place[m] = static_cast<int>(part.jobs.size());
    ShareJob& job = part.problem.jobs.emplace_back(problem.jobs[m]);
    part.jobs.push_back(static_cast<int>(m));
    if (!keep_fitting(job, part.problem.gpus)) {
      return invalid(fmt::format(
          "POP with pop={}: job {} asks for {} GPUs, more than a group has of any type it runs on ({}); use "
          "fewer groups",
          options.groups, job.id.value, job.gpus,
          *std::max_element(part.problem.gpus.begin(), part.problem.gpus.end())));
    }
  }
  for (size_t p = 0; p < problem.pairs.size(); ++p) {
    SharePair pair = problem.pairs[p];
    const auto first = static_cast<size_t>(pair.first);
    const auto second = static_cast<size_t>(pair.second);
    PopPart& part = parts[static_cast<size_t>(groups[first])];
    pair.first = place[first];
    pair.second = place[second];
    const bool fits = part.problem.jobs[static_cast<size_t>(pair.first)].gpus <=
                      part.problem.gpus[static_cast<size_t>(pair.type.value)];
    if (groups[first] == groups[second] && fits) {
      part.problem.pairs.push_back(pair);
      part.pairs.push_back(static_cast<int>(p));
    }
  }
  return parts;
}

absl::StatusOr<PopShares> pop_shares(const ShareProblem& problem, const PopOptions& options,
                                     const ShareSolver& solver) {
  SCALAI_ASSIGN_OR_RETURN(const std::vector<PopPart> parts, split(problem, options));
  PopShares result;
  result.shares.alone.resize(problem.jobs.size());
  result.shares.paired.resize(problem.pairs.size());
  for (const PopPart& part : parts) {
    if (part.jobs.empty()) continue;
    SCALAI_ASSIGN_OR_RETURN(Shares shares, solver(part.problem));
    for (size_t k = 0; k < part.jobs.size(); ++k) {
      result.shares.alone[static_cast<size_t>(part.jobs[k])] = std::move(shares.alone[k]);
    }
    for (size_t k = 0; k < part.pairs.size(); ++k) {
      result.shares.paired[static_cast<size_t>(part.pairs[k])] = shares.paired[k];
    }
    result.shares.effort += shares.effort;
    result.shares.dropped.insert(result.shares.dropped.end(), shares.dropped.begin(), shares.dropped.end());
    result.objectives.push_back(shares.objective);
    result.pivots.push_back(shares.effort.pivots);
  }
  if (!result.objectives.empty()) {
    result.shares.objective = *std::min_element(result.objectives.begin(), result.objectives.end());
  }
  return result;
}

}  // namespace scalai::policy
