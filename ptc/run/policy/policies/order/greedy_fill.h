#pragma once
// Greedy filling of a pool of GPUs of one type by priority. All jobs are visited by rank; each one that still fits gets
// its requested GPUs, the others wait. The result is updated job by job instead of computed anew at each event. One
// thread.
//
// The key of a waiting job is constant. The key of a running job may fall with time, by `fall_per_s` a second, as
// remaining time does; jobs of one rate keep their order. A fall alone changes nothing: a waiting job does not fit into
// the rest that the jobs before it leave, and a fall makes that rest smaller.
//
// Let d be the increase, caused by an event, of the GPUs taken before some place of the order. If d = 0, nothing behind
// that place changes. If d > 0, the next change is the first running job whose running sum of GPUs exceeds the pool: it
// waits, and d falls by its size. If d < 0, it is the first waiting job that fits: it runs, and d grows by its size.
// The free GPUs only fall along the order, so of the waiting jobs of one size the first decides. An event costs O(k s
// log n) for k changed jobs and s different sizes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "ptc/run/policy/policies/order/prefix_tree.h"

namespace scalai::policy::order {

enum class FillMode : uint8_t {
  kPreemptive,  // as above
  kBackfill,    // running jobs stay; the first waiting job that fits starts, and so on
  kStrict,      // running jobs stay; the first waiting job starts if it fits, no job overtakes it
};

class GreedyFill {
 public:
  explicit GreedyFill(FillMode mode) : mode_(mode) {}

  // Sets the time for the keys of running jobs; it never goes back.
  void set_now(double now_s) { now_s_ = now_s; }
  void set_capacity(int64_t gpus);
  int64_t capacity() const { return capacity_; }
  int64_t used() const { return used_; }

  // Adds a waiting job; with preemption it starts if it is its turn. `fall_per_s`: fall of its key per second while it
  // runs. CHECK in all: gpus > 0; the id is new (add), or present (the others).
  void add(int32_t id, double key, int gpus, double fall_per_s = 0);
  // Adds a job that already runs, even without room for it. CHECK: not kPreemptive.
  void add_running(int32_t id, double key, int gpus);
  // Removes a waiting or running job.
  void remove(int32_t id);
  // Gives a job another key; with preemption a running job keeps running if it is still its turn. Without preemption
  // this has no effect on a running job.
  void set_key(int32_t id, double key);

  // Without preemption: waiting jobs take the free GPUs; call it after all changes of an instant. With preemption there
  // is nothing left to do.
  void fill_up();

  bool has(int32_t id) const {
    return static_cast<size_t>(id) < jobs_.size() && jobs_[static_cast<size_t>(id)].gpus > 0;
  }
  bool runs(int32_t id) const { return has(id) && jobs_[static_cast<size_t>(id)].runs; }
  double key(int32_t id) const { return rank_of(id).key; }
  bool any_waits() const { return !waiting_.empty(); }

  // Jobs that may have started or stopped since the last call, by id, each once; runs() tells their state.
  std::vector<int32_t> take_changed();

 private:
  struct Entry {
    double key = 0;  // waiting: the key; running: key + fall_per_s × start time
    double fall_per_s = 0;
    int gpus = 0;  // 0 = no such job
    bool runs = false;
  };

  Entry& entry(int32_t id) { return jobs_[static_cast<size_t>(id)]; }
  const Entry& entry(int32_t id) const { return jobs_[static_cast<size_t>(id)]; }
  Rank rank_of(int32_t id) const;  // now, as of a waiting job
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
  std::map<double, PrefixTree> running_;   // by fall_per_s
  std::map<int, std::set<Rank>> waiting_;  // by GPUs
  std::vector<int32_t> changed_;
};

}  // namespace scalai::policy::order
