#pragma once
// Rules that compute shares, one for each policy. round_policy.h decides when and which jobs run; a rule decides how
// much, by a program or a rule of its own. A rule may keep state between calls. One thread.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/policies/shares/allocation.h"
#include "ptc/run/policy/policies/shares/pop.h"

namespace scalai::policy {

class AnswerLog;  // ptc/run/policy/answer_log.h

class ShareRule {
 public:
  virtual ~ShareRule() = default;
  // Shares of all jobs of the problem, which are the active ones, by id.
  virtual absl::StatusOr<Shares> shares(const ShareProblem& problem) = 0;
  virtual std::string remarks() const { return ""; }
  // As Policy::keep_answers.
  virtual bool keep_answers(AnswerLog* /*log*/) { return false; }
};

// A function of the problem alone, optionally split by POP.
class ProgramRule : public ShareRule {
 public:
  ProgramRule(ShareSolver solver, const PopOptions& pop) : solver_(std::move(solver)), pop_(pop) {}
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;
  std::string remarks() const override;
  bool keep_answers(AnswerLog* log) override;

 private:
  ShareSolver solver_;
  PopOptions pop_;
  Effort effort_;
  int64_t allocations_ = 0, slowest_pivots_ = 0;
  std::vector<JobId> dropped_;  // each once
};

// finish_time_shares, with the time that each job's work so far would have taken on its isolated share.
class FinishTimeRule : public ProgramRule {
 public:
  explicit FinishTimeRule(const PopOptions& pop) : ProgramRule(finish_time_shares, pop) {}
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;

 private:
  struct Memory {
    double isolated_s = 0, remaining = 0, isolated_rate = 0;
  };
  std::map<JobId, Memory> memory_;
};

// Types by the mean of T_mj / max over j of T_mj over the problem's jobs, the best first; ties by number.
std::vector<GpuType> fastest_first(const ShareProblem& problem);

}  // namespace scalai::policy
