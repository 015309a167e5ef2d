#pragma once
// Who runs when a pool of GPUs of one type is given out greedily in an order of priority: going through all jobs by
// rank, each that still fits gets what it asks for, the others wait. Kept up to date job by job instead of being done
// again at each event.
//
// The key of a waiting job stands still. That of a running one may fall with time, by `pace` a second, as remaining
// time does; jobs of one pace keep their order. A fall alone changes nothing: a job that waits does not fit into what
// those before it leave, and then even less is left.
//
// Let d be the GPUs that are taken before some place of the order beyond what was taken before an event. Nothing behind
// that place changes if d = 0. If d > 0 the next to change is the first running job whose end of the sum of GPUs lies
// beyond the pool: it waits, and d falls by its size. If d < 0 it is the first waiting job that fits: it runs, and d
// grows by its size. What is left only falls along the order, so of the waiting jobs of one size the first decides. An
// event costs O(k s log n) for k jobs that change and s different sizes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ptc/sched/policies/order/prefix_tree.h"

namespace scalai::sched::order {

enum class FillMode : uint8_t {
  kPreemptive,  // as above
  kBackfill,    // who runs stays; of those that wait the first that fits into what is free starts, and so on
  kStrict,      // who runs stays; the first that waits starts when it fits, and nobody before it does
};

class GreedyFill {
 public:
  explicit GreedyFill(FillMode mode) : mode_(mode) {}

  // The keys of running jobs from now on count from here; never goes back.
  void set_now(double now_s) { now_s_ = now_s; }
  void set_capacity(int64_t gpus);
  int64_t capacity() const { return capacity_; }
  int64_t used() const { return used_; }

  // A job that waits with this key, and starts if that is its turn. `pace`: by how much its key falls a second while it
  // runs.
  void add(int32_t id, double key, int gpus, double pace = 0);
  // A job that runs already, whether or not there is room for it (without preemption only).
  void add_running(int32_t id, double key, int gpus);
  // It leaves, waiting or running.
  void remove(int32_t id);
  // Another key for a job; it goes on running if that is still its turn.
  void set_key(int32_t id, double key);

  // Without preemption: those that wait take what is free, once all that happened at an instant is told. With it
  // nothing is left to be done.
  void fill_up();

  bool has(int32_t id) const {
    return static_cast<size_t>(id) < jobs_.size() && jobs_[static_cast<size_t>(id)].gpus > 0;
  }
  bool runs(int32_t id) const { return has(id) && jobs_[static_cast<size_t>(id)].runs; }
  double key(int32_t id) const { return rank_of(id).key; }
  bool any_waits() const { return !waiting_.empty(); }

  // Jobs that started or stopped since the last call, each once or more; look at runs() for how it ended.
  std::vector<int32_t> take_changed();

 private:
  struct Entry {
    double key = 0;  // waiting: itself; running: key + pace x now at the start
    double pace = 0;
    int gpus = 0;  // 0 = not here
    bool runs = false;
  };

  Entry& entry(int32_t id) { return jobs_[static_cast<size_t>(id)]; }
  const Entry& entry(int32_t id) const { return jobs_[static_cast<size_t>(id)]; }
  Rank rank_of(int32_t id) const;  // now, as a waiting job's
  int64_t used_before(Rank rank) const;
  int32_t first_displaced() const;
  int32_t first_fit(Rank from) const;
  int32_t first_waiting() const;
  void start(int32_t id);
  void stop(int32_t id);
  void settle(Rank from, int64_t more_taken);
  void unline(int32_t id);

  bool preemptive() const { return mode_ == FillMode::kPreemptive; }

  FillMode mode_;
  double now_s_ = 0;
  int64_t capacity_ = 0, used_ = 0;
  std::vector<Entry> jobs_;                // by id
  std::map<double, PrefixTree> running_;   // by pace
  std::map<int, std::set<Rank>> waiting_;  // by GPUs
  std::vector<int32_t> changed_;
};

}  // namespace scalai::sched::order
