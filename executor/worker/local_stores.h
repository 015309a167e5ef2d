#pragma once
// LocalStores: the stores of all workers in one process. A process with the GPUs of several hosts has one worker for
// each host (`scalai exec worker --host=0,1`). State between these hosts is copied directly, as between devices of one
// host.
//
// A worker holds in_use() shared while it may read stores of other workers, and exclusively while it frees memory:
// nobody may read memory that a GPU has given back, even if the bytes would be discarded.
//
// Thread rules: any thread.

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "executor/state/store.h"
#include "ptc/plan/plan.h"

namespace scalai::executor::worker {

class LocalStores {
 public:
  void put(const plan::Location& place, std::shared_ptr<state::Store> store) {
    const std::lock_guard lock(mutex_);
    stores_[place] = std::move(store);
  }
  // Removes the place's store. Does nothing if the place has another store by now.
  void remove(const plan::Location& place, const state::Store* store) {
    const std::lock_guard lock(mutex_);
    const auto found = stores_.find(place);
    if (found != stores_.end() && found->second.get() == store) stores_.erase(found);
  }
  // The place's store; null if no worker of this process has the place. The pointer keeps the store alive.
  std::shared_ptr<state::Store> find(const plan::Location& place) const {
    const std::lock_guard lock(mutex_);
    const auto found = stores_.find(place);
    return found == stores_.end() ? nullptr : found->second;
  }
  // Valid while this lives.
  std::shared_mutex& in_use() { return in_use_; }

 private:
  mutable std::mutex mutex_;
  std::map<plan::Location, std::shared_ptr<state::Store>> stores_;
  std::shared_mutex in_use_;
};

}  // namespace scalai::executor::worker
