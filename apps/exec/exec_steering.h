#pragma once
// Control of a running job by users: `scalai exec ctl` and signals. Requests become events for the control loop, so
// that the journal has them and a replay repeats them. Thread-safe.

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/controller/live_requests.h"
#include "executor/controller/live_steps.h"
#include "executor/rpc/controller_end.h"
#include "ptc/run/control/control.h"

namespace scalai::apps {

class Steering {
 public:
  // The scenario outlives this object. `clock_s`: real time of a second of the scenario, where it is known.
  Steering(const scenario::Scenario& scenario, std::string strategy, double clock_s = 1)
      : scenario_(scenario), strategy_(std::move(strategy)), clock_s_(clock_s) {}

  // Answers a request of `ctl`; any thread.
  absl::StatusOr<std::string> answer(const proto::CtlRequest& request);
  // Requests of a job's own training program, of the run's thread; what cannot be done is said on stderr. `gpus` 0: no
  // other number.
  void ask_for(int job, int gpus, bool save);
  // As SIGTERM: saves all jobs and ends the run, which is over so long after (0: nobody knows); any thread.
  void stop(double notice_s = 0) { ask(*drain(-1, notice_s)); }

  // Called by the thread of the run: at its begin, during it, and at its end. The controller, which requests wake,
  // lives until end().
  void begin(executor::rpc::ControllerEnd& controller);
  void watch(double at_s, const control::Control& control);  // which lives until end()
  void pass_time(double at_s);                               // since the last watch()
  void end();
  enum class Phase { kBefore, kDuring, kAfter };
  Phase phase() const;
  executor::controller::LiveRequests& requests() { return requests_; }
  executor::controller::LiveSteps& live() { return live_; }

 private:
  void ask(control::EventBody request);
  void wake(const char* why);  // the thread of the run
  std::string status() const;
  absl::StatusOr<int> job_of(const std::string& name) const;
  absl::StatusOr<control::EventBody> resize(int job, int gpus) const;
  std::string told_of_resize(int job, int gpus) const;                            // the answer
  absl::StatusOr<control::EventBody> drain(int32_t host, double notice_s) const;  // 0: none

  const scenario::Scenario& scenario_;
  const std::string strategy_;
  const double clock_s_;
  executor::controller::LiveRequests requests_;
  executor::controller::LiveSteps live_;
  mutable std::mutex mutex_;
  Phase phase_ = Phase::kBefore;
  executor::rpc::ControllerEnd* controller_ = nullptr;  // during the run
  const control::Control* control_ = nullptr;           // of the run's thread
  double at_s_ = 0;
  std::vector<control::JobStatus> jobs_;
  std::vector<control::LossRecord> losses_;
  std::map<std::string, std::string> told_;  // by job: of its last notice
};

// Calls `came` for each SIGTERM, SIGINT and SIGHUP (unless that is ignored), on a thread of its own, with their number
// so far. Create it before any other thread, so that all others block these signals.
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
