#pragma once
// From shares to rounds: Gavel's round mechanism (OSDI'20, section 5; details as its simulator has them). In each round every job
// runs on one GPU type or not at all; who runs is chosen so that over the rounds each gets the share it was promised.
//
// For each GPU type, jobs (and pairs) are sorted by priority = share / time received on the type since the last allocation,
// then by deficit (time promised minus time received before that), then by share, then by order of arrival. GPUs are given
// in that order, each job at most once, types one after the other. Those without a share come last and fill what is left; a job
// that came after the last allocation is not known yet and waits for the next.

#include <cstdint>
#include <span>
#include <vector>

#include "ptc/sched/policies/shares/allocation.h"

namespace scalai::sched {

// A job, or two on the same GPUs, for one round.
struct Pick {
  JobId first, second;  // second: none = alone
  GpuType type;
  int gpus = 0;
  friend bool operator==(const Pick&, const Pick&) = default;
};

class Rounds {
 public:
  explicit Rounds(double round_s) : round_s_(round_s) {}

  // New shares hold from now on. Deficits grow by what was promised and not received since the last time; times received start
  // again at half a round. Jobs that are not in the problem are forgotten.
  void adopt(const ShareProblem& problem, const Shares& shares, double now_s);
  void finished(JobId job);

  // Who runs next, in order of choice. `order`: GPU types, the one chosen for first. `with_share_only`: nobody else fills gaps.
  std::vector<Pick> pick(std::span<const int> gpus, std::span<const GpuType> order, bool with_share_only) const;
  // A pick has run for so long.
  void ran(const Pick& pick, double seconds);

 private:
  struct Item {
    JobId first, second;
    int gpus = 0;
  };
  // Per item and type, at [item * types_ + type].
  struct Account {
    double share = 0;
    double time = 0;
    double deficit = 0;
    bool carried = false;  // by the type
  };
  struct Entry {
    double priority = 0, deficit = 0, share = 0;
    size_t item = 0;
  };
  std::vector<Item> items_of(const ShareProblem& problem, std::vector<Account>& accounts, const Shares& shares) const;
  std::vector<Entry> entries(size_t type, bool with_share_only) const;
  size_t find(JobId first, JobId second) const;  // items_.size() = not there

  double round_s_;
  double adopted_s_ = 0;
  size_t types_ = 0;
  std::vector<Item> items_;  // by arrival: (later job, alone first, earlier job)
  std::vector<Account> accounts_;
};

}  // namespace scalai::sched
