#pragma once
// A policy that is an order: jobs are given GPUs by priority, greedily, until no more fit. On a fleet of one GPU type
// rigid jobs go through GreedyFill, which costs O(log n) an event, and as much again for each running job whose key may
// fall slower than its pace (it changes, checkpoints are written, the fabric is shared); several types, elastic jobs and orders that
// change with time by themselves are filled from scratch at each event (fill_all).

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ptc/sched/policies/order/greedy_fill.h"
#include "ptc/sched/policy.h"

namespace scalai::sched::order {

// How jobs are put in order. Smaller keys go first, ties by submission.
class Order {
 public:
  virtual ~Order() = default;
  virtual double key(const View& view, JobId id) = 0;
  // By how much the key of a running job falls a second; it stands still while the job waits.
  virtual double pace(const Job& /*job*/) const { return 0; }
  // When the key of a job changes by a jump if it goes on as it is (demotion, promotion); kNever if it does not.
  virtual double jump_s(const View& /*view*/, JobId /*id*/, bool /*runs*/) { return kNever; }
  // Keys change at any time in other ways: fill_all at each event, and each `wake_every_s` while jobs wait.
  virtual bool drifts() const { return false; }
  virtual double wake_every_s() const { return kNever; }
  // While a running job may not be stopped (a lease); 0 = at any time.
  virtual double lease_s() const { return 0; }
  virtual void finished(const View& /*view*/, JobId /*id*/) {}
};

struct OrderedOptions {
  FillMode mode = FillMode::kPreemptive;
  bool elastic = false;  // min(max_gpus, what is left), at least min_gpus, instead of what was asked for
  bool fastest = false;  // of several GPU types with room the one the job is fastest on, not the first
  double pack_at =
      0;  // FIFO: a waiting job shares a running one's GPUs if their normalised rates sum to this; 0 = never
};

std::unique_ptr<Policy> make_ordered(std::unique_ptr<Order> order, OrderedOptions options, PolicyTraits traits);

// Remaining seconds at the size asked for on the fastest GPU type (on the one it has if it runs); kNever if it runs on
// none.
double remaining_s(const View& view, JobId id);

// GPUs of a placement on hosts that are not under notice.
int safe_gpus(const View& view, const Placement& placement);

// One pass over `ids` (by priority): what each is to have. Jobs of `keep` keep their GPUs, or are moved off hosts
// under notice if there is room. A running job
// stays on its type if it still fits there.
struct FillRequest {
  std::vector<JobId> ids;
  std::vector<JobId> keep;
  OrderedOptions options;
};
std::vector<Grant> fill_all(const View& view, const FillRequest& request);

}  // namespace scalai::sched::order
