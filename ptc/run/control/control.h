#pragma once
// The control loop as a pure function of events: step(Event) → [Command]. No clock, no threads, no callbacks:
// everything it decides follows from the scenario, the strategy and the events so far. The same events give the same
// commands, the same plans and the same report, whichever runtime reports them.
//
//   job: waiting ──► training ──► stopping ──► reconfiguring ──► training …     complete, failed, refused
//
// A scenario's policy is asked inside step(): a deterministic function of what it is shown. What a program answers is
// no function of ours, so its answers are events of the log (PolicyDecided), and come from there when the log is
// replayed.
//
// One thread.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/cost/step/step_time_model.h"
#include "ptc/run/control/events.h"
#include "ptc/run/control/records.h"
#include "ptc/run/scenario/strategy.h"

namespace scalai::policy {
class Policy;
}  // namespace scalai::policy

namespace scalai::control {

// For whoever watches a run.
struct JobStatus {
  std::string name;
  std::string state;                        // as in JobRecord
  int64_t step = 0;                         // done
  std::string layout;                       // of the epoch that holds; "" before the first
  int gpus = 0;                             // allocated
  int reconfigurations = 0;                 // committed
  std::optional<NoticeRecord> notice = {};  // the last one
};

struct ControlOptions {
  // Every plan goes through the interpreter (ptc/plan/interpreter.h) before it is used; one that it refuses is a bug
  // (CHECK).
  bool check_plans = false;
  // The runtime answers Read with SamplesRead. Then the run ends only when all samples that were to be read have been,
  // and a job whose samples do not add up fails.
  bool reads_samples = false;
  // Asked in place of the scenario's own policy: a program's, or what a log says that it answered. Outlives the control
  // loop.
  policy::Policy* policy = nullptr;
};

class Control {
 public:
  // The scenario outlives the control loop.
  Control(const scenario::Scenario& scenario, scenario::Strategy strategy, const step::StepTimeModel& step_time,
          const ControlOptions& options = {});
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // What to do about one event, in order. The first event is Started; after a Stop command nothing more is expected.
  std::vector<Command> step(const Event& event);

  // Not OK once the policy has failed: it gave what there is not, cannot serve this cluster, or is a program that went
  // wrong. The run cannot go on; the report is of what was done until then.
  const absl::Status& policy_status() const;

  // Everything known at `at_s`; jobs that train are credited with the whole steps done by then.
  RunReport report(double at_s) const;
  // Where the jobs stand at `at_s`, in little time.
  std::vector<JobStatus> status(double at_s) const;
  // Losses of devices so far, in order of notice.
  const std::vector<LossRecord>& losses() const;
  // Plans made so far, in order.
  const std::vector<plan::Plan>& plans() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalai::control
