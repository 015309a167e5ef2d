#pragma once
// The scenario's script: its events, which of them have happened, and the purpose of each timer. One thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ptc/run/control/internal/turn.h"
#include "ptc/run/scenario/scenario.h"

namespace scalai::control {

struct Timer {
  enum class Purpose {
    kEvent,     // the scenario's event `event` happens
    kDeadline,  // the notice of the preemption `event` is over
    kUntil,     // the scenario ends
    kArrival,   // jobs are submitted
    kWake,      // the policy is asked
    kLeave,     // the job `job` leaves devices under notice
    kCutOff,    // the failure `event` of links is noticed, or has lasted as long as it was thought to
  };
  Purpose purpose = Purpose::kEvent;
  size_t event = 0;
  double since_s = 0;  // kCutOff: when the links failed
  int job = 0;         // kLeave
};

class Script {
 public:
  // The scenario outlives this.
  explicit Script(const scenario::Scenario& scenario);

  // ---- timers
  // Returns the timer's id: timers are numbered from 0 in the order of arming.
  int64_t arm(Turn& turn, double at_s, Timer timer);
  void arm_end(Turn& turn);     // of the scenario, where it has one
  void arm_events(Turn& turn);  // those with a time
  Timer timer(int64_t id) const { return timers_.at(static_cast<size_t>(id)); }

  // Devices that are not there at the start.
  const std::vector<DeviceId>& absent() const { return scenario_.absent; }

  // ---- events, by index in the scenario
  const scenario::What& what(size_t event) const { return scenario_.events[event].what; }
  void set_fired(size_t event) { fired_[event] = true; }
  // Not fired, due when the job has done `step` steps.
  std::vector<size_t> due_at_step(int job, int64_t step) const;
  // The first step after `step` at which an event is due; the largest number when there is none.
  int64_t next_step(int job, int64_t step) const;
  // Not fired, due after this round of the job's k-th reconfiguration. The delay comes on top.
  std::vector<size_t> due_in_round(int job, int reconfiguration, int round) const;
  double delay_s(size_t event) const;  // of an event that is due in a round
  // "events[3] (at step 500)", for the report.
  std::vector<std::string> unreached() const;

 private:
  const scenario::Scenario& scenario_;
  std::vector<bool> fired_;  // by event
  std::vector<Timer> timers_;
};

}  // namespace scalai::control
