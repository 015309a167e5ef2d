#pragma once
// Stores of all workers that live in one process. A process that keeps the GPUs of several hosts of a scenario has a
// worker for each (`scalai exec worker --host=0,1`); between them state is copied directly, as between devices of one.
//
// in_use() is held shared while stores of others may be read, and alone while something is freed: memory of a GPU that
// is given back must not be read, not even in vain. Any thread.

#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "executor/state/store.h"
#include "ptc/plan/plan.h"

namespace scalai::executor {

class LocalStores {
 public:
  void put(const plan::Location& place, std::shared_ptr<Store> store) {
    const std::lock_guard lock(mutex_);
    stores_[place] = std::move(store);
  }
  // Unless another one has taken its place.
  void remove(const plan::Location& place, const Store* store) {
    const std::lock_guard lock(mutex_);
    const auto found = stores_.find(place);
    if (found != stores_.end() && found->second.get() == store) stores_.erase(found);
  }
  // Null: no worker of this process has it.
  std::shared_ptr<Store> find(const plan::Location& place) const {
    const std::lock_guard lock(mutex_);
    const auto found = stores_.find(place);
    return found == stores_.end() ? nullptr : found->second;
  }
  std::shared_mutex& in_use() { return in_use_; }

 private:
  mutable std::mutex mutex_;
  std::map<plan::Location, std::shared_ptr<Store>> stores_;
  std::shared_mutex in_use_;
};

}  // namespace scalai::executor
