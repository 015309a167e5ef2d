#pragma once
// Requests of users to a running job, from other threads: events for the control loop, delivered when its runtime
// polls. Thread-safe.

#include <mutex>
#include <utility>
#include <vector>

#include "ptc/run/control/events.h"

namespace scalai::executor::controller {

class LiveRequests {
 public:
  void add(control::EventBody request) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(request));
  }
  std::vector<control::EventBody> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<control::EventBody> waiting_;
};

}  // namespace scalai::executor::controller
