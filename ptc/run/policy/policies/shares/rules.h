#pragma once
// Rules that compute shares, one for each policy. round_policy.h decides when and which jobs run; a rule decides how
// much, by a program or a rule of its own. A rule may keep state between calls. One thread.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/random.h"
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

// Gandiva as emulated by Gavel. If all jobs fit, all have equal shares. Else jobs of equal size are paired at random, a
// pair stays while it is worth it, and pairs and single jobs have equal shares. Worth it: the normalised throughputs of
// both sum to at least 1 on some type.
class GandivaRule : public ShareRule {
 public:
  explicit GandivaRule(uint64_t seed) : random_(seed) {}
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;
  std::string remarks() const override;

 protected:
  // `by_type`: for each GPU type that carries the pair, the normalised throughputs of both, summed.
  virtual bool worth_it(const ShareProblem& problem, const std::vector<double>& by_type) const;

 private:
  using PairIndex = std::map<std::pair<int, int>, std::vector<int>>;  // two jobs → indices of their pairs, one a type
  void dissolve(const ShareProblem& problem, const PairIndex& pairs, const std::map<JobId, int>& places);
  void pair_up(const ShareProblem& problem, const std::map<JobId, int>& places);

  Random random_;
  std::map<JobId, JobId> partner_;  // invalid: alone
  int64_t paired_ = 0, dissolved_ = 0;
};

// AlloX (Le et al., EuroSys'20) for jobs of one GPU. A running job keeps its GPU. A min-cost matching of the oldest
// other jobs to (GPU, i-th from the end) with cost i × remaining time decides the starts. InvalidArgument: a larger
// job.
class AlloxRule : public ShareRule {
 public:
  explicit AlloxRule(double alpha) : alpha_(alpha) {}
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;

 private:
  absl::Status match(const ShareProblem& problem, const std::vector<size_t>& queue, const std::vector<int>& left);
  double alpha_;
  std::map<JobId, size_t> type_of_;
};

// Types by the mean of T_mj / max over j of T_mj over the problem's jobs, the best first; ties by number.
std::vector<GpuType> fastest_first(const ShareProblem& problem);

}  // namespace scalai::policy
