#pragma once
// The control loop as a pure function of events: step(Event) → [Command]. No clock, no threads, no callbacks: everything
// it decides follows from the scenario, the strategy and the events so far. The same events give the same commands, the
// same plans and the same report, whichever runtime reports them.
//
//   job: waiting ──► training ──► stopping ──► reconfiguring ──► training …     complete, failed
//
// One thread.

#include <memory>
#include <string>
#include <vector>

#include "ptc/control/events.h"
#include "ptc/control/report.h"
#include "ptc/control/strategy.h"
#include "ptc/parallel/step_time.h"

namespace scalai::control {

// For whoever watches a run.
struct JobStatus {
  std::string name;
  std::string state;         // as in JobRecord
  int64_t step = 0;          // done
  std::string layout;        // of the epoch that holds; "" before the first
  int gpus = 0;              // allocated
  int reconfigurations = 0;  // committed
};

class Control {
 public:
  // The scenario outlives the control loop.
  // `check_plans`: every plan goes through the interpreter (ptc/plan/interpreter.h) before it is used; a plan that it
  // refuses is a bug (CHECK).
  Control(const Scenario& scenario, Strategy strategy, const parallel::StepTimeModel& step_time,
          bool check_plans = false);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // What to do about one event, in order. The first event is Started; after a Stop command nothing more is expected.
  std::vector<Command> step(const Event& event);

  // Everything known at `at_s`; jobs that train are credited with the whole steps done by then.
  RunReport report(double at_s) const;
  // Where the jobs stand at `at_s`, in little time.
  std::vector<JobStatus> status(double at_s) const;
  // Plans made so far, in order.
  const std::vector<std::shared_ptr<const plan::Plan>>& plans() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalai::control
