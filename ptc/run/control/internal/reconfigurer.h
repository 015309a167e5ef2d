#pragma once
// A job's way from one configuration to the next: request, attempts, commit. A loss aborts the attempt under way, and
// the next one plans from the survivors: the old epoch is whole until the commit. One thread.
//
//     begin ──► attempt ──► Execute … ExecutionDone ──► commit ──► training
//                 ▲  └────► wait (nothing fits), failed (no complete copy of the state)
//                 └──────── lose (Abort)

#include <optional>
#include <set>
#include <string>

#include "ptc/run/control/internal/change_planner.h"
#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/lifecycle.h"
#include "ptc/run/control/internal/run_records.h"
#include "ptc/run/control/internal/snapshots.h"
#include "ptc/run/control/internal/targets.h"
#include "ptc/run/control/internal/trainer.h"
#include "ptc/run/control/internal/turn.h"

namespace scalai::control {

class Reconfigurer {
 public:
  // All outlive this.
  Reconfigurer(const scenario::Scenario& scenario, const Condition& condition, const ChangePlanner& planner,
               Targets& targets, Trainer& trainer, Snapshots& snapshots, Lifecycle& lifecycle, RunRecords& records,
               Turn& turn);

  // At the beginning of the scenario: the job's first state is made where it trains, or the job waits.
  void place(Job& job);
  // The job stands at a step boundary, or waits. Its cause says why it is to move.
  void begin(Job& job);
  // Devices were lost: a job that is on them, or is moving from or to them, goes elsewhere. False: this is no such job.
  bool lose(Job& job, const std::set<DeviceId>& lost, double failed_at_s, const std::string& cause);
  // Links that failed at `since_s` cut hosts off: a job that has devices on both sides leaves those out of its reach.
  // It stays where it is if nothing else fits, no copy of its state can be read, or the links are thought to be back
  // (after `left_s`; nothing: nobody knows) before it could train elsewhere. True: it stays, standing still.
  bool leave(Job& job, double since_s, std::optional<double> left_s);
  // A copy cannot be read: an attempt that reads it gives way to one from the next source, or the job fails.
  void lose_source(Job& job, SnapshotId copy);
  // Nothing fits a job that waits, still: the reason may be another one.
  void keep_waiting(Job& job);
  // The plan has been executed: the new epoch holds, and the job trains unless it is to move or to stop again. One that
  // is on devices that will be taken stands still (kStopping): its state may have to be saved before it moves.
  void commit(Job& job, const PhaseSeconds& phases);

 private:
  void attempt(Job& job);
  void run(Job& job, const Source& source, const PlannedChange& change);
  void abort(Job& job, const std::string& cause);
  void wait(Job& job, const std::string& reason = "");
  bool reads_out_of_reach(const Job& job) const;
  void make_initial_state(Job& job, std::shared_ptr<const collection::Collection> collection);

  const bool has_policy_;
  const Condition& condition_;
  const ChangePlanner& planner_;
  Targets& targets_;
  Trainer& trainer_;
  Snapshots& snapshots_;
  Lifecycle& lifecycle_;
  RunRecords& records_;
  Turn& turn_;
};

}  // namespace scalai::control
