#pragma once
// From shares to rounds: Gavel's round mechanism (OSDI'20, section 5; details as in its simulator). In each round every
// job runs on one GPU type or not at all; the choice gives each job its promised share over the rounds. One thread.
//
// For each GPU type, jobs (and pairs) are sorted by priority = share / time received on the type since the last
// allocation, then by deficit (promised minus received time before that), then by share, then by arrival. GPUs are
// given in this order, each job at most once, types one after the other. Jobs without a share come last and fill gaps.
// A job that arrived after the last allocation is unknown here and waits for the next.

#include <span>
#include <vector>

#include "ptc/run/policy/policies/shares/allocation.h"

namespace scalai::policy {

// A job, or two on the same GPUs, for one round.
struct Pick {
  JobId first, second;  // second invalid: alone
  GpuType type;
  int gpus = 0;
  friend bool operator==(const Pick&, const Pick&) = default;
};

class Rounds {
 public:
  explicit Rounds(double round_s) : round_s_(round_s) {}

  // Sets new shares. Deficits grow by the promised time not received since the last call; received times restart at
  // half a round. Jobs outside the problem are forgotten.
  void adopt(const ShareProblem& problem, const Shares& shares, double now_s);
  void finished(JobId job);

  // The jobs of the next round, in order of choice. `gpus`: by type. `order`: GPU types, the first chooses first.
  // `with_share_only`: jobs without a share do not fill gaps.
  std::vector<Pick> pick(std::span<const int> gpus, std::span<const GpuType> order, bool with_share_only) const;
  // Records that a pick has run for `seconds`.
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
    bool carried = false;  // the type can run it
  };
  struct Entry {
    double priority = 0, deficit = 0, share = 0;
    size_t item = 0;
  };
  std::vector<Item> items_of(const ShareProblem& problem, std::vector<Account>& accounts, const Shares& shares) const;
  std::vector<Entry> entries(size_t type, bool with_share_only) const;
  size_t find(JobId first, JobId second) const;  // items_.size() = absent

  double round_s_;
  double adopted_s_ = 0;
  size_t types_ = 0;
  std::vector<Item> items_;  // by arrival: (later job, alone first, earlier job)
  std::vector<Account> accounts_;
};

}  // namespace scalai::policy
