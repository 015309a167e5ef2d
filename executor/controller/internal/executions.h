#pragma once
// Executions: reconfigurations under way, one a job at most. The work of a stage goes on beside the runtime, on a
// thread of its own, and is awaited at the stage's modelled end. It owns the commands and that work.
//
//   begin ──► stage's work ──► happen(StageEnd): RoundDone … ExecutionDone, or broken: the control loop gives it up
//
// One thread: that of the runtime.

#include <future>

#include "executor/controller/internal/arrivals.h"

namespace scalai::executor::controller {

class Executions {
 public:
  // Both outlive this object.
  Executions(RunState& run, Arrivals& arrivals) : run_(run), arrivals_(arrivals), executions_(run.jobs.size()) {}

  absl::Status begin(const control::Execute& execute);
  // Waits for the work under way, and forgets the new epoch.
  absl::Status abort(const control::Abort& abort);
  // Waits for the work of a stage whose modelled time is over, and receives losses of workers meanwhile.
  absl::Status happen(const control::Agenda::StageEnd& end);
  // Devices are back: plans that are made from now on may use them.
  void note_repair(const std::vector<DeviceId>& devices);
  bool is_under_way(int job) const { return of(job).has_value(); }
  // Whether some execution waits for the loss that explains why its work failed.
  bool any_broken() const;
  // Until the work of the job's stage is done, if there is any.
  void wait(int job);

  // What an earlier controller did: without any work.
  void take_up(const control::Execute& execute);
  void drop(int job) { of(job).reset(); }
  void note_round(int job, int mark);
  // The number of the reconfiguration, with an execution only; and whether the round was reported.
  int reconfiguration(int job) const { return of(job)->command.reconfiguration; }
  bool is_told(int job, int mark) const { return mark <= of(job)->last_mark; }
  // The agenda's side of a stage's end; events that follow, without those that were reported before.
  std::vector<control::EventBody> end_modelled_stage(int job);
  const change::Stage& current_stage(int job) { return (*run_.agenda.stages(job))[run_.agenda.current_stage(job)]; }
  // Reports the rounds that an execution has behind it, by the journal, and the control loop may not know yet: before
  // it receives anything else.
  absl::Status catch_up(int job);
  // Executions that have no work, by the old clock: what has arrived is dropped and all of it runs again, unless it has
  // given up old state. Then it goes on with the round that had begun, for which workers are prepared.
  absl::Status begin_again();

 private:
  struct Execution {
    control::Execute command;
    std::future<StageOutcome> work;  // of the stages up to the current one
    size_t worked = 0;               // stages whose work is done, perhaps by an earlier controller
    control::PhaseSeconds phases;    // as measured
    std::set<DeviceId> known_dead;   // to the control loop, when it made the plan
    bool broken = false;             // a device of it is dead: nothing more comes of it
    int last_mark = -1;              // RoundDone reported last, perhaps by an earlier controller
  };
  std::optional<Execution>& of(int job) { return executions_[static_cast<size_t>(job)]; }
  const std::optional<Execution>& of(int job) const { return executions_[static_cast<size_t>(job)]; }
  absl::Status begin_work(int job);
  absl::Status end_stage(int job, const StageOutcome& outcome);
  absl::Status fail(const control::Agenda::StageEnd& end, const absl::Status& why);
  bool needs_dead(int job);
  bool involves_dead(const Execution& execution) const;

  RunState& run_;
  Arrivals& arrivals_;
  std::vector<std::optional<Execution>> executions_;  // by job
};

}  // namespace scalai::executor::controller
