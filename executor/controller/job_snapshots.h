#pragma once
// JobSnapshots: the snapshots of one job: copies in hosts' memories, checkpoints on disk, or both. It owns the list of
// them and the files that workers still write.
//
//   note ──► make: copy_to_hosts, write ──► (real training) done(): false … true ──► forget
//                                     └──► leave_files: what lies there is not its own
//
// Thread-safe, but make() and write() by one thread at a time.

#include <map>
#include <mutex>

#include "executor/controller/job_commands.h"
#include "executor/controller/trainer_work.h"

namespace scalai::executor::controller {

class JobSnapshots {
 public:
  // `folder`: of the job's checkpoints. `commands` outlives this object.
  JobSnapshots(JobCommands& commands, std::string folder) : commands_(commands), folder_(std::move(folder)) {}

  // The snapshot counts as one of the job's, with what the command says of it. Not `complete`: its files are not there.
  void note(const control::Background& background, bool complete = true);
  // Copies of the initial state. `sums`: of real training; empty: not known.
  void note_initial(TensorSums sums);
  void note_done(control::SnapshotId snapshot);
  void note_forget(control::SnapshotId snapshot);
  // Those whose files are not there: nobody is left to complete what an earlier controller had begun.
  std::vector<control::SnapshotId> cut_off() const;

  using Files = JobCommands::Files;
  struct Snapshot {
    bool in_memory = false;                  // hosts' memories hold a copy
    std::string folder;                      // the checkpoint's folder; empty: none
    TensorSums sums = {};                    // of real training; empty: not known
    std::shared_ptr<Files> files = nullptr;  // under way
    absl::StatusOr<bool> complete = false;   // whether they are there
  };
  // Of an unknown snapshot all is empty.
  Snapshot find(control::SnapshotId snapshot) const;

  // Makes a noted snapshot of the live state. `in_background`: workers copy the state and write its files meanwhile.
  // Errors: those of WorkerPool::call and store::Writer.
  absl::Status make(const control::Background& background, TensorSums sums, bool in_background);
  // Whether its files are there. Errors: the same, after which it comes to nothing; NotFound: an earlier controller had
  // begun it, or it was forgotten.
  absl::StatusOr<bool> done(control::SnapshotId snapshot);
  // Until the files of all that were begun are there, or have failed. Unavailable: workers are lost.
  absl::Status wait_for_files();
  // Drops a snapshot's copies and its checkpoint; an unknown snapshot is no error. Errors: those of WorkerPool::tell.
  absl::Status forget(control::SnapshotId snapshot);
  // Whatever lies where the files of this snapshot would be is not its own: forget() leaves it. They are written no
  // further.
  void leave_files(control::SnapshotId snapshot);

  // Writes a checkpoint that is no snapshot, and returns its folder when that is complete. Errors: those of make().
  absl::StatusOr<std::string> write(const collection::Collection& side, int64_t step);
  // Whether the last checkpoint on disk is of this step.
  bool has_checkpoint_of(int64_t step) const;
  // Removes what killed writers have left; what cannot be removed is in nobody's way.
  void clean() const { (void)store::clean(folder_); }

 private:
  Snapshot snapshot_of(const control::Background& background) const;
  void add(control::SnapshotId id, Snapshot snapshot);
  absl::StatusOr<Files> begin_files(const collection::Collection& side, int64_t step, control::SnapshotId tag,
                                    bool in_background);

  JobCommands& commands_;
  const std::string folder_;
  mutable std::mutex mutex_;  // guards snapshots_: a stage reads it beside the control loop
  std::map<control::SnapshotId, Snapshot> snapshots_;
};

}  // namespace scalai::executor::controller
