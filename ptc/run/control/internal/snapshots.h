#pragma once
// Copies of a job's state: checkpoints, redundant copies, and the last checkpoint of a run that is stopped. Says when
// one is made, which arrive, and which are lost. One thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "ptc/run/control/internal/condition.h"
#include "ptc/run/control/internal/job.h"
#include "ptc/run/control/internal/redundancy.h"
#include "ptc/run/control/internal/turn.h"

namespace scalai::control {

class Snapshots {
 public:
  // Both outlive this.
  Snapshots(const Condition& condition, Turn& turn) : condition_(condition), turn_(turn) {}

  // Begins the copies that are due at the job's step. Returns the seconds for which training stalls: while every device
  // copies its state to host memory. The rest goes on in the background. A copy is left out, and counted in the job's
  // record, while the one before it is still under way; a checkpoint that a user asks for waits.
  double start_due(Job& job);
  // Begins the checkpoint after which a stopped job is over (Copies::last). The job stands at a step boundary until
  // it is written; a loss meanwhile leads through a reconfiguration back here.
  void start_last(Job& job);
  // Begins the checkpoint that a planned change waits for (Copies::before_change). False: the state is in storage.
  bool start_before_change(Job& job);
  // Begins these copies of what devices hold that will be taken; the change waits for them.
  void start_evacuation(Job& job, Redundancy copies);
  // The state as it is lies in them, or in a checkpoint.
  bool evacuated(const Job& job) const;
  // The copy counts from now on, in place of the one before it. False: it was given up on the way.
  bool arrive(Job& job, int64_t tag);
  // The copy came to nothing, or cannot be read. Nobody goes back to it.
  void give_up(Job& job, SnapshotId copy);
  // The job goes on from `step`: copies of later steps, which were out of reach, are of a past that did not happen.
  void forget_after(Job& job, int64_t step);
  // What these devices held of the job's state and its copies is gone.
  void lose(Job& job, const std::set<DeviceId>& devices);
  // Gives up the copies under way that are worth nothing any more.
  void drop(Job& job, const std::function<bool(const Holding&)>& worthless);
  // The hosts whose memory is lost with these devices, because their other devices are dead already.
  std::set<HostId> without_memory(const std::set<DeviceId>& lost) const;

 private:
  // `redundant` null: a checkpoint.
  int64_t start(Job& job, const std::shared_ptr<const Redundancy>& redundant);
  bool on_lost(const Holding& copy, const std::set<DeviceId>& devices, const std::set<HostId>& hosts) const;

  // What the copies of a job's state are, worked out once: one state has many copies, one after the other.
  struct Work {
    std::shared_ptr<const collection::Collection> collection;
    std::optional<double> stall_s = std::nullopt;
    std::optional<std::vector<BulkFlow>> checkpoint = std::nullopt;
    std::set<HostId> down = {};  // as the redundancy knows them
    std::shared_ptr<const Redundancy> redundancy = nullptr;
  };
  Work& work_on(const Job& job);  // of its live state
  double stall_s(const Job& job);
  const std::vector<BulkFlow>& checkpoint_of(const Job& job);
  std::shared_ptr<const Redundancy> redundancy_of(const Job& job);

  const Condition& condition_;
  Turn& turn_;
  std::map<int, Work> work_;  // by job
  int64_t next_tag_ = 1;
};

}  // namespace scalai::control
