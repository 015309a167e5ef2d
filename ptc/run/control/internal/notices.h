#pragma once
// Answers to notices, carried out: a job trains on until the decision of Evacuator has to begin, saves what that says,
// and the record has both. One thread.
//
//   notice ──► answer ──► kLater … timer, a copy arrives ──► answer ──► kAtBoundary, kNow ──► saves_first ──► change

#include <string>

#include "ptc/run/control/internal/evacuation.h"
#include "ptc/run/control/internal/script.h"
#include "ptc/run/control/internal/snapshots.h"
#include "ptc/run/control/internal/trainer.h"

namespace scalai::control {

class Notices {
 public:
  // All outlive this.
  Notices(const Condition& condition, const ChangePlanner& planner, Targets& targets, Script& script, Trainer& trainer,
          Snapshots& snapshots, Turn& turn, Evacuator evacuator);

  enum class Leave {
    kNo,          // the job does not train on devices that will be taken
    kLater,       // it trains on
    kAtBoundary,  // it is to stop at the next step boundary
    kNow          // it has stopped: the step under way is given up
  };
  // For a job that trains: when a notice comes (`cause`), and whenever it is time to decide again (no cause).
  // `at_once`: it does not train on.
  Leave answer(Job& job, const std::string& cause = "", bool at_once = false);
  // All is over at the deadline, and a job that trains is to leave a checkpoint. True: it has stopped, because the step
  // under way would end too late for that.
  bool stop_by(Job& job, double deadline_s);
  // It trains on devices that will be taken until it is time to leave; other reasons to move have to wait.
  bool waits(const Job& job) const;
  // At a step boundary before a change. Begins the copy or checkpoint that it waits for; false: it needs none, or there
  // is one.
  bool saves_first(Job& job);

 private:
  void note(Job& job, const Evacuation& evacuation);
  void stop(Job& job);
  bool boundary_fits(const Job& job, const NoticeRecord& record) const;

  const Condition& condition_;
  const ChangePlanner& planner_;
  Targets& targets_;
  Script& script_;
  Trainer& trainer_;
  Snapshots& snapshots_;
  Turn& turn_;
  Evacuator evacuator_;
};

}  // namespace scalai::control
