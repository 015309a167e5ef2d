#pragma once
// What one job means to the workers: its state's versions, the stages of its executions, its snapshots and checkpoints.
// Every function waits until the workers have done it.
//
// Thread rules: run_stage() by one thread at a time, beside it background() and forget_snapshot() by another; nothing else
// beside anything.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "executor/runtime/crew.h"
#include "ptc/change/stages.h"
#include "ptc/control/runtime.h"

namespace scalai::executor {

struct ExecOptions;

// How the work of a stage went.
struct StageOutcome {
  absl::Status status;
  double seconds = 0;
  std::vector<control::TransferRecord> transfers;
};

class JobWork {
 public:
  // All outlive this.
  JobWork(int job, const control::Scenario& scenario, Crew& crew, const ExecOptions& options)
      : job_(job), scenario_(scenario), crew_(crew), options_(options) {}

  // The job trains on this collection from this step: makes its state, if it has none.
  absl::Status begin(const collection::Collection& collection, int64_t step);
  // Its state becomes that of this step. Devices that are `gone` hold nothing of it, even when they are back.
  absl::Status advance(int64_t step, const std::set<DeviceId>& gone = {});
  // `start_s`: scenario time at which the stage began.
  StageOutcome run_stage(const control::Execute& execute, const change::Stage& stage, double start_s);
  absl::Status commit(int64_t epoch);
  absl::Status forget(int64_t version);
  // Makes the copy or the checkpoint.
  absl::Status background(const control::Background& background);
  absl::Status forget_snapshot(control::SnapshotId snapshot);
  int64_t bytes_verified() const { return bytes_verified_; }

  // The same as far as this controller knows of it: what an earlier one has done already.
  void note_begin(std::shared_ptr<const collection::Collection> collection, int64_t step);
  void note_step(int64_t step) {
    step_ = step;
    made_ = true;
  }
  void note_execute(const control::Execute& execute);
  void note_staged();  // of the execution that was noted last
  void note_commit();
  // The initial state may not have come to be everywhere: it is made again.
  void note_loss(const std::vector<DeviceId>& devices);
  void note_background(const control::Background& background);
  void note_forget(control::SnapshotId snapshot);
  // Devices of the committed epoch; none before the first.
  std::vector<DeviceId> devices() const { return state_ == nullptr ? std::vector<DeviceId>() : state_->device_of_rank; }
  // Whether a worker that says this of itself has its part of the committed epoch, or of the one about to be.
  bool held_in(const Hello& hello) const;
  // Nobody knows what step the earlier controller has brought the workers to: they are told, whatever this one notes.
  void resume() { step_known_ = false; }

 private:
  const control::JobSpec& spec() const { return scenario_.jobs[static_cast<size_t>(job_)]; }
  absl::Status stage(const control::Execute& execute);
  absl::Status prepare(const control::Execute& execute);
  absl::Status round(const control::Execute& execute, int round, double start_s,
                     std::vector<control::TransferRecord>& transfers);
  absl::Status verify(const control::Execute& execute);
  std::string state_path() const;
  absl::Status write_checkpoint(const control::Background& background, const std::string& folder);
  absl::Status copy_to_hosts(const collection::Collection& collection, int64_t version, bool own_devices,
                             const std::vector<collection::ExtraHolder>& copies);
  std::string checkpoint_folder() const;

  const int job_;
  const control::Scenario& scenario_;
  Crew& crew_;
  const ExecOptions& options_;
  std::shared_ptr<const collection::Collection> state_;  // of the committed epoch
  std::shared_ptr<const collection::Collection> from_;   // where the one under way begins, as noted
  std::shared_ptr<const collection::Collection> next_;   // of the one under way
  int64_t step_ = 0;                                     // of the live state
  int64_t next_step_ = 0;
  bool step_known_ = true;  // all workers hold the live state at step_
  bool made_ = false;       // an earlier controller's initial state was there, going by what came after
  struct Snapshot {
    bool in_memory = false;
    std::string folder;  // of a checkpoint
  };
  Snapshot snapshot_of(const control::Background& background) const;
  void add_snapshot(control::SnapshotId id, Snapshot snapshot);
  mutable std::mutex snapshots_mutex_;  // a stage runs beside the control loop
  std::map<control::SnapshotId, Snapshot> snapshots_;
  std::atomic<int64_t> bytes_verified_ = 0;
};

// These devices of one host lose what they hold; everybody is told where their new memory is.
absl::Status fail_devices(Crew& crew, HostId host, const std::vector<DeviceId>& devices);

}  // namespace scalai::executor
