#pragma once
// The policies of Gavel's simulator that are no linear programs: Gandiva (OSDI'18) and AlloX (EuroSys'20). One thread.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/shares/rules.h"

namespace scalai::policy::labs {

std::vector<PolicyInfo> gandiva_allox_policies();

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

}  // namespace scalai::policy::labs
