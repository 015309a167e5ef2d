#pragma once
// Where the time of the published rules' hosts goes. Apart from what those rules count, so that their numbers stay what
// they are: each interval between two events is booked once, on all hosts that are up. GPU time is in host milliseconds.

#include <algorithm>
#include <cstdint>

namespace scalai::sched::recovery_internal {

struct HostTime {
  double hosts = 0;                                         // all of it
  double lost = 0, changing = 0, checkpoint = 0, idle = 0;  // and of it, beside what steps took
};

// One step that ended: what it takes without interruption.
struct StepTime {
  int64_t ms = 0;
  double used = 0;
};

class ReplayBooks {
 public:
  // What the job does from now on; set after booking up to now.
  bool stepping = false;  // a step is under way, also while hosts look for each other
  bool meeting = false;   // a rendezvous goes on
  bool redoing = false;   // the step under way is the second run of its part
  int used = 0;           // hosts that the step runs on

  void book(int64_t to_ms, int live) {
    if (at_ms_ < write_end_ms_) take(std::min(to_ms, write_end_ms_), live, true);
    take(to_ms, live, false);
  }
  void write_until(int64_t ms) { write_end_ms_ = ms; }

  StepTime step_done() {
    const StepTime done{.ms = before_.ms + during_.ms, .used = before_.used + during_.used};
    before_ = during_ = {};
    step_from_ms_ = at_ms_;
    redoing = false;
    settled_ = time_;
    return done;
  }

  // The step under way never ends: what ran before the rendezvous is lost, the rest was the price of the change.
  void cut() {
    time_.lost += before_.used;
    time_.changing += during_.used;
    before_ = during_ = {};
    step_from_ms_ = write_end_ms_ = at_ms_;
    redoing = false;
  }
  void start() { settled_ = time_; }

  int64_t step_from_ms() const { return step_from_ms_; }
  const HostTime& settled() const { return settled_; }  // up to the last step's end (none: the first start)

 private:
  void take(int64_t to_ms, int live, bool writing) {
    const int64_t ms = to_ms - at_ms_;
    if (ms <= 0) return;
    const auto span = static_cast<double>(ms);
    const double working = span * std::min(used, live);
    at_ms_ = to_ms;
    time_.hosts += span * live;
    if (!writing && !stepping) return (void)((meeting ? time_.changing : time_.idle) += span * live);
    time_.idle += span * live - working;
    if (writing) {
      time_.checkpoint += working;
      step_from_ms_ = to_ms;
    } else if (redoing) {
      time_.lost += working;
    } else {
      StepTime& open = meeting ? during_ : before_;
      open.ms += ms;
      open.used += working;
    }
  }

  int64_t at_ms_ = 0, step_from_ms_ = 0, write_end_ms_ = 0;
  StepTime before_, during_;  // of the step under way: before and during a rendezvous
  HostTime time_, settled_;
};

}  // namespace scalai::sched::recovery_internal
