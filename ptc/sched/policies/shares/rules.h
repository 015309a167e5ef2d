#pragma once
// What shares are computed from, one rule a policy: the seam between round_policy.h (when, and who runs) and the programs and
// emulations that say how much. A rule may remember what it said before; it is asked at each allocation, one thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/random.h"
#include "ptc/sched/policies/shares/allocation.h"
#include "ptc/sched/policies/shares/pop.h"

namespace scalai::sched {

class ShareRule {
 public:
  virtual ~ShareRule() = default;
  // Shares of all the jobs of the problem, which are the active ones, by id.
  virtual absl::StatusOr<Shares> shares(const ShareProblem& problem) = 0;
  virtual std::string remarks() const { return ""; }
};

// A function of the problem alone, split by POP where asked.
class ProgramRule : public ShareRule {
 public:
  ProgramRule(ShareSolver solver, const PopOptions& pop) : solver_(std::move(solver)), pop_(pop) {}
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;
  std::string remarks() const override;

 private:
  ShareSolver solver_;
  PopOptions pop_;
  int64_t allocations_ = 0, programs_ = 0, pivots_ = 0, slowest_pivots_ = 0;
  std::vector<JobId> dropped_;  // each once
};

// finish_time_shares with the time that what a job has done so far would have taken on its isolated share.
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

// FIFO as Gavel's simulator has it: a job gets one GPU type for good, the queue waits behind its head. With `strict` a job gets a
// type with room, drawn at random. Without, as the reference code does: always the fastest type that was free when the
// allocation was made, full or not, so that jobs pile up there; a freed place goes to the head of the queue, counted
// against all GPUs; when the type becomes exactly full, the slowest is struck off the list (the code strikes a random one).
class FifoRule : public ShareRule {
 public:
  FifoRule(bool strict, uint64_t seed) : strict_(strict), random_(seed) {}
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;

 private:
  std::vector<size_t> refill(const ShareProblem& problem, std::vector<int>& left);
  void place_strictly(const ShareProblem& problem, const std::vector<size_t>& queue, std::vector<int>& left);
  void place_as_reference(const ShareProblem& problem, const std::vector<size_t>& queue, std::vector<int>& left);

  bool strict_;
  Random random_;
  std::map<JobId, size_t> type_of_;
};

// Gandiva as Gavel emulates it: everybody has an equal share while all fit; else jobs of the same size are paired at random, a
// pair stays while it is worth it, and pairs and the jobs left over have equal shares. Worth it: the members' normalised
// throughputs sum to at least 1 on some type (`strict`), or summed over all types, 0 if one does not carry the pair, as
// the reference code does (with three types nearly always true).
class GandivaRule : public ShareRule {
 public:
  GandivaRule(bool strict, uint64_t seed) : strict_(strict), random_(seed) {}
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;
  std::string remarks() const override;

 private:
  using PairIndex = std::map<std::pair<int, int>, std::vector<int>>;  // jobs of the problem → its pairs, one a type
  void dissolve(const ShareProblem& problem, const PairIndex& pairs, const std::map<JobId, int>& places);
  void pair_up(const ShareProblem& problem, const std::map<JobId, int>& places);
  bool worth_it(const ShareProblem& problem, const std::vector<int>& pairs) const;

  bool strict_;
  Random random_;
  std::map<JobId, JobId> partner_;  // none: it is alone
  int64_t paired_ = 0, dissolved_ = 0;
};

// AlloX (Le et al., EuroSys'20): jobs of one GPU; a running job keeps its GPU; of the oldest others a min-cost matching of jobs to
// (GPU, i-th from the end) with cost i x remaining time decides who starts where. Error: InvalidArgument, a larger job.
class AlloxRule : public ShareRule {
 public:
  explicit AlloxRule(double alpha) : alpha_(alpha) {}
  absl::StatusOr<Shares> shares(const ShareProblem& problem) override;

 private:
  absl::Status match(const ShareProblem& problem, const std::vector<size_t>& queue, const std::vector<int>& left);
  double alpha_;
  std::map<JobId, size_t> type_of_;
};

// Types by how well the problem's jobs run on them, the best first: by the mean of T_mj / max over j of T_mj; ties by number.
std::vector<GpuType> fastest_first(const ShareProblem& problem);

}  // namespace scalai::sched
