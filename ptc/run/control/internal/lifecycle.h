#pragma once
// How jobs end, and when the run is over: when all jobs are, when the scenario says so, when a user stops it, or when
// the policy has failed. One thread.
//
//     going ──► stopping (UserStop: last checkpoints) ──► ending (accounts of samples are awaited) ──► over

#include <string>

#include "ptc/run/control/internal/jobs.h"
#include "ptc/run/control/internal/policy_loop.h"
#include "ptc/run/control/internal/run_records.h"
#include "ptc/run/control/internal/snapshots.h"
#include "ptc/run/control/internal/turn.h"

namespace scalai::control {

class Lifecycle {
 public:
  // All outlive this.
  Lifecycle(Jobs& jobs, RunRecords& records, Snapshots& snapshots, PolicyLoop& policy, Turn& turn);

  // ---- a job ends; its devices are free
  void complete(Job& job);
  void fail(Job& job, std::string why);  // during a reconfiguration
  void refuse(Job& job);                 // by the policy, while it waits
  // On request. Its devices stay allocated.
  void stop(Job& job);
  // The samples that were read do not add up: the job has failed, wherever it stands.
  void misread(Job& job, std::string why);

  // ---- the run ends
  // Jobs are to stop after a last checkpoint.
  void request_stop() { stopping_ = true; }
  // The run is over as soon as all samples of finished steps are accounted for.
  void end();
  // At once: the policy has failed.
  void give_up() { ending_ = over_ = true; }

  bool stopping() const { return stopping_; }
  bool ending() const { return ending_; }  // nothing but accounts of samples counts any more
  bool over() const { return over_; }

 private:
  void leave(Job& job, Mode mode);
  void end_if_all_over();

  Jobs& jobs_;
  RunRecords& records_;
  Snapshots& snapshots_;
  PolicyLoop& policy_;
  Turn& turn_;
  bool stopping_ = false, ending_ = false, over_ = false;
};

}  // namespace scalai::control
