#pragma once
// Past: what an earlier controller did, by the journal. Its events are given again in their order, and its commands are
// noted as done: the agenda, the jobs and the executions come to where they were. No worker is commanded. It owns the
// position in ExecOptions::past.
//
// The work that followed from the last event may not be done; whoever goes on does it again, for real (Takeover). One
// thread: that of the runtime.

#include "executor/controller/internal/training_progress.h"

namespace scalai::executor::controller {

class Past {
 public:
  // All outlive this object.
  Past(RunState& run, Executions& executions, TrainingProgress& training)
      : run_(run),
        executions_(executions),
        training_(training),
        next_(run.options.resume ? 0 : run.options.past.size()) {}

  bool is_over() const { return next_ == run_.options.past.size(); }
  // The next event, noted. CHECK: the past is not over.
  const control::Event& next();
  // A command that followed from the last event.
  void note(const control::Command& command);

 private:
  void note(const control::Event& event);
  void note_losses(const control::DevicesLost& lost, bool of_the_agenda);
  void note(const control::Inject& inject);
  // Brings the agenda to an event. Whether the event is one of the agenda's.
  bool replay(const control::Event& event);
  // Whether a happening led to this event, to no event, or to another one.
  enum class Verdict : uint8_t { kIsIt, kNothing, kOther };
  Verdict compare(const control::Agenda::Happening& happening, const control::Event& event);

  RunState& run_;
  Executions& executions_;
  TrainingProgress& training_;
  size_t next_;
};

}  // namespace scalai::executor::controller
