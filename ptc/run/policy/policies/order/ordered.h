#pragma once
// A policy defined by an order: jobs get GPUs greedily by priority until no more fit. On a fleet of one GPU type, rigid
// jobs use GreedyFill: O(log n) an event, and as much again for each running job whose key may fall slower than its
// fall_per_s (it changes, it writes checkpoints, it shares the fabric). Several types, elastic jobs and orders that
// change with time by themselves are filled from scratch at each event (fill_all). One thread.

#include <memory>
#include <vector>

#include "ptc/run/policy/policies/order/greedy_fill.h"
#include "ptc/run/policy/policy.h"

namespace scalai::policy::order {

// An order of jobs. Smaller keys go first, ties by submission.
class Order {
 public:
  virtual ~Order() = default;
  virtual double key(const View& view, JobId id) = 0;
  // Fall of the key of a running job per second; the key of a waiting job is constant.
  virtual double fall_per_s(const Job& /*job*/) const { return 0; }
  // Time of the next jump of the key if the job continues as it is (demotion, promotion); kNever: none.
  virtual double jump_s(const View& /*view*/, JobId /*id*/, bool /*runs*/) { return kNever; }
  // True: keys also change at other times. Then fill_all runs at each event, and every `wake_every_s` while jobs wait.
  virtual bool drifts() const { return false; }
  virtual double wake_every_s() const { return kNever; }
  virtual void finished(const View& /*view*/, JobId /*id*/) {}
};

struct OrderedOptions {
  FillMode mode = FillMode::kPreemptive;
  bool elastic = false;  // give min(max_gpus, free GPUs), at least min_gpus, instead of the requested number
  bool fastest = false;  // of several GPU types with room take the job's fastest, not the first
  // FIFO: a waiting job shares the GPUs of a running one if their normalised rates sum to at least this; 0 = never.
  double pack_at = 0;
};

std::unique_ptr<Policy> make_ordered(std::unique_ptr<Order> order, OrderedOptions options, PolicyTraits traits);

// Remaining seconds on the requested number of GPUs of the fastest type (a running job: of its own type); kNever if no
// type can run it.
double remaining_s(const View& view, JobId id);

// GPUs of a placement on hosts without notice.
int safe_gpus(const View& view, const Placement& placement);

// One pass over `ids` (by priority) gives the grant of each job. Jobs of `keep` keep their GPUs, or move off hosts
// under notice if there is room. A running job stays on its type if it still fits there.
struct FillRequest {
  std::vector<JobId> ids;
  std::vector<JobId> keep;
  OrderedOptions options;
};
std::vector<Grant> fill_all(const View& view, const FillRequest& request);

}  // namespace scalai::policy::order
