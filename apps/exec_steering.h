#pragma once
// How people steer a run while it goes on: `scalai exec ctl` and signals. What they ask becomes events for the control
// loop, so that the journal has it and a replay does the same.

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/control/controller_end.h"
#include "executor/runtime/live_requests.h"
#include "ptc/control/control.h"

namespace scalai::apps {

class Steering {
 public:
  // The scenario outlives this.
  Steering(const control::Scenario& scenario, std::string strategy)
      : scenario_(scenario), strategy_(std::move(strategy)) {}

  // Answers `ctl`; from any thread.
  absl::StatusOr<std::string> answer(const executor::CtlRequest& request);
  // As SIGTERM: all jobs are saved and the run ends; from any thread.
  void stop() { ask(control::UserStop{}); }

  // The thread of the run: it begins (with the controller that requests wake), goes on, and is over.
  void begin(executor::ControllerEnd& controller);
  void watch(double at_s, const control::Control& control);
  void end();
  enum class Phase { kBefore, kDuring, kAfter };
  Phase phase() const;
  executor::LiveRequests& requests() { return requests_; }

 private:
  void ask(control::EventBody request);
  std::string status() const;
  absl::StatusOr<control::EventBody> resize(const executor::CtlRequest& request) const;
  absl::StatusOr<control::EventBody> drain(const executor::CtlRequest& request) const;

  const control::Scenario& scenario_;
  const std::string strategy_;
  executor::LiveRequests requests_;
  mutable std::mutex mutex_;
  Phase phase_ = Phase::kBefore;
  executor::ControllerEnd* controller_ = nullptr;  // during the run
  double at_s_ = 0;
  std::vector<control::JobStatus> jobs_;
};

// SIGTERM and SIGINT, as calls on a thread of its own. To be made before any other thread, which then leaves the signals
// to this one.
class SignalWatch {
 public:
  explicit SignalWatch(std::function<void(int times)> came);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace scalai::apps
