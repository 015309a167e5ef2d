#include "ptc/run/policy/policies/shares/rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/kept_shares.h"

namespace scalai::policy {
namespace {

constexpr size_t kShown = 5;  // names of jobs in a remark

}  // namespace

std::vector<GpuType> fastest_first(const ShareProblem& problem) {
  std::vector<double> worth(problem.gpus.size());
  for (const ShareJob& job : problem.jobs) {
    const double best = job.rates.empty() ? 0 : *std::max_element(job.rates.begin(), job.rates.end());
    for (size_t j = 0; best > 0 && j < worth.size(); ++j) worth[j] += job.rates[j] / best;
  }
  std::vector<GpuType> order;
  for (size_t j = 0; j < worth.size(); ++j) order.emplace_back(static_cast<int64_t>(j));
  std::stable_sort(order.begin(), order.end(), [&](GpuType a, GpuType b) {
    return worth[static_cast<size_t>(a.value)] > worth[static_cast<size_t>(b.value)];
  });
  return order;
}

absl::StatusOr<Shares> ProgramRule::shares(const ShareProblem& problem) {
  ++allocations_;
  Shares shares;
  if (pop_.groups > 1) {
    SCALAI_ASSIGN_OR_RETURN(PopShares parts, pop_shares(problem, pop_, solver_));
    for (int64_t pivots : parts.pivots) slowest_pivots_ = std::max(slowest_pivots_, pivots);
    shares = std::move(parts.shares);
  } else {
    SCALAI_ASSIGN_OR_RETURN(shares, solver_(problem));
  }
  effort_ += shares.effort;
  for (JobId job : shares.dropped) {
    if (std::find(dropped_.begin(), dropped_.end(), job) == dropped_.end()) dropped_.push_back(job);
  }
  return shares;
}

bool ProgramRule::keep_answers(AnswerLog* log) {
  solver_ = kept(std::move(solver_), log);
  return true;
}

std::string ProgramRule::remarks() const {
  std::string text = fmt::format("{} allocations", allocations_);
  if (effort_.programs > 0) {
    text += fmt::format(
        ", {} linear programs, {} pivots{}; {}", effort_.programs, effort_.pivots,
        effort_.retries > 0
            ? fmt::format(", {} solves by another algorithm, since CLP failed by its usual one", effort_.retries)
            : "",
        kTieBreak);
  }
  if (pop_.groups > 1) {
    text += fmt::format("; POP: {} groups {}, at most {} pivots in one of them", pop_.groups,
                        pop_.split == PopOptions::Split::kModulo ? "by job number" : "at random", slowest_pivots_);
  }
  if (!dropped_.empty()) {
    text += fmt::format("; deadlines that could not all be met were dropped for a while: {} jobs, of number",
                        dropped_.size());
    for (size_t k = 0; k < std::min(kShown, dropped_.size()); ++k) {
      text += fmt::format("{} {}", k > 0 ? "," : "", dropped_[k].value);
    }
    text += dropped_.size() > kShown ? " …" : "";
  }
  return text;
}

absl::StatusOr<Shares> FinishTimeRule::shares(const ShareProblem& problem) {
  ShareProblem timed = problem;
  const std::vector<double> rates = throughputs(problem, isolated_shares(problem));
  std::map<JobId, Memory> next;
  for (size_t m = 0; m < timed.jobs.size(); ++m) {
    ShareJob& job = timed.jobs[m];
    if (const auto before = memory_.find(job.id); before != memory_.end()) {
      const Memory& old = before->second;
      const double done = std::max(0.0, old.remaining - job.remaining);
      job.isolated_s = old.isolated_s + (old.isolated_rate > 0 ? done / old.isolated_rate : 0);
    }
    next[job.id] = {job.isolated_s, job.remaining, rates[m]};
  }
  memory_ = std::move(next);
  return ProgramRule::shares(timed);
}

}  // namespace scalai::policy
