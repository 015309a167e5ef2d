#pragma once
// JobWork: a job on workers. It knows the job's epochs and the step of its live state, and does what the control loop
// says of them; JobCommands packs and sends it, JobSnapshots has copies and checkpoints. Functions that command workers
// return when the workers are done.
//
// Thread rules: run_stage() by one thread at a time; during it background() and snapshots() by one other thread. No
// other function during any call.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "executor/controller/job_commands.h"
#include "executor/controller/job_snapshots.h"
#include "executor/controller/trainer_work.h"
#include "ptc/cost/change/stages.h"

namespace scalai::executor::controller {

// The result of a stage's work.
struct StageOutcome {
  absl::Status status;
  double seconds = 0;                              // measured
  std::vector<control::TransferRecord> transfers;  // measured, sorted by end
};

class JobWork {
 public:
  // `job` is the job's index in the scenario. The references outlive this object.
  JobWork(int job, const scenario::Scenario& scenario, WorkerPool& pool, const ExecOptions& options);

  // Errors of all functions with a Status are those of WorkerPool::call, unless stated otherwise.

  // Makes the state of `step` on the collection's devices, unless the job has this epoch already, and its copies
  // (control::Train::initial_copies). Trainers that an earlier controller has sent on from there keep theirs.
  using InitialCopies = std::optional<std::vector<collection::ExtraHolder>>;
  absl::Status begin(const collection::Collection& collection, int64_t step,
                     const InitialCopies& copies = std::nullopt);
  // Trains the live state to `step`. `gone` are devices that have lost their state, even if they are back. Trainers
  // that stand beyond it, which an earlier controller had sent there, do not have that state any more: an interruption.
  absl::Status advance(int64_t step, const std::set<DeviceId>& gone = {});
  // Whether training is real (ExecOptions::programs). Then advance() may end before its step, without an error:
  // trainers have ended, and some devices have no whole state. Nothing else.
  bool is_trained() const { return trainers_ != nullptr; }
  std::optional<Interruption> take_interruption() { return std::exchange(interruption_, std::nullopt); }
  TrainerWork::Trained take_trained() { return is_trained() ? trainers_->take_trained() : TrainerWork::Trained(); }
  // With ExecOptions::standby: these hosts keep a trainer ready on each device. Errors: those of WorkerPool::tell.
  absl::Status stand_by(const std::set<HostId>& hosts);
  // After a loss of workers, or resume(): where the trainers stand. The live state is of that step now.
  absl::StatusOr<Interruption> settle(const std::set<DeviceId>& gone);
  // Of the live state. After resume() nobody knows it until settle().
  int64_t step() const { return step_; }
  bool is_found() const { return found_; }
  // Whether a worker's Hello names the committed epoch.
  bool live_in(const proto::Hello& hello) const { return holds(hello, state_.get()); }
  // Runs a stage of an execution. `start_s` is the scenario time at the stage's start; transfers count from it. The
  // outcome's status is DataLoss, with the first places, if kVerify finds wrong state.
  StageOutcome run_stage(const control::Execute& execute, const change::Stage& stage, double start_s);
  // Makes the prepared epoch the committed one: workers drop all other epochs. CHECK: it is the epoch of the last
  // execution. Errors: those of WorkerPool::tell.
  absl::Status commit(int64_t epoch);
  // Drops a version on all workers: an epoch that was given up, or a copy. Errors: those of WorkerPool::tell.
  absl::Status forget(state::StateVersion version) { return commands_.forget(version); }
  // Shows the live state, as it is, to readers: parameters and buffers, or all. It stays where it is, until training is
  // about to rewrite it: then it is copied into the memories of its hosts, or with `fleeting` goes. Nothing of it is
  // left after an error. Not during run_stage().
  absl::StatusOr<proto::LiveState> show_live(state::StateVersion version, const LiveSteps::Kind& kind);
  // Drops all of these that workers have: an earlier controller's. Errors: those of WorkerPool::tell.
  absl::Status forget_live() { return commands_.forget_live(); }
  // Trains to the command's step, then makes its copy, its checkpoint, or both. Real training does not wait for the
  // files: workers copy the state, and write them meanwhile. Errors: those of WorkerPool::call and store::Writer.
  absl::Status background(const control::Background& background);
  JobSnapshots& snapshots() { return snapshots_; }
  const JobSnapshots& snapshots() const { return snapshots_; }
  // Writes the live state as the checkpoint of its step, and returns its folder when that is complete. No snapshot:
  // the control loop does not know it. Not during run_stage(). Errors: those of WorkerPool::call and
  // store::Writer.
  absl::StatusOr<std::string> keep_live();
  // Bytes of state that kVerify stages have compared.
  int64_t bytes_verified() const { return bytes_verified_; }

  // The note_ functions take over the effects of an earlier controller's commands. They command no worker.
  void note_begin(std::shared_ptr<const collection::Collection> collection, int64_t step, bool copied);
  void note_step(int64_t step) {
    step_ = step;
    made_ = true;
  }
  void note_execute(const control::Execute& execute);
  void note_staged();  // the last noted execution is past its first stage
  void note_commit();
  // If these are devices of the job and the initial state was possibly never complete, the next begin() makes it again.
  // Steps that were trained really, until then, prove that it was.
  void note_loss(const std::vector<DeviceId>& devices, bool has_trained);
  void note_background(const control::Background& background) {
    note_step(background.step);
    snapshots_.note(background, !is_trained());
  }
  // The devices of the committed epoch; none before the first begin().
  std::vector<DeviceId> devices() const { return state_ == nullptr ? std::vector<DeviceId>() : state_->device_of_rank; }
  // Whether a worker's Hello names the committed epoch, or the epoch of the execution under way.
  bool held_in(const proto::Hello& hello) const { return live_in(hello) || holds(hello, next_.get()); }
  // Ends the notes: the workers' step is unknown, so the next advance() commands them, whatever step was noted.
  void resume() {
    step_known_ = found_ = false;
    snapshots_.clean();
  }

 private:
  absl::StatusOr<bool> found_further(const collection::Collection& collection, int64_t step);
  bool holds(const proto::Hello& hello, const collection::Collection* side) const;
  absl::Status stage(const control::Execute& execute);
  absl::Status prepare(const control::Execute& execute);
  absl::Status verify_trained(const control::Execute& execute);
  // Whether this goes back to a beginning that only the training program can make again.
  bool begins_afresh(const control::Execute& execute) const;
  absl::StatusOr<TensorSums> sums_of(const collection::Collection& side, const std::set<DeviceId>& gone);

  const int job_;
  WorkerPool& pool_;
  const ExecOptions& options_;
  JobCommands commands_;
  JobSnapshots snapshots_;
  std::shared_ptr<const collection::Collection> state_;  // the committed epoch; null: none, or it is made again
  std::shared_ptr<const collection::Collection> from_;   // the source of the noted execution
  std::shared_ptr<const collection::Collection> next_;   // the new epoch of the execution under way
  bool copied_ = false;                                  // that source is initial state with copies
  int64_t step_ = 0;                                     // the step of the live state
  int64_t next_step_ = 0;                                // the step of next_
  bool step_known_ = true;                               // all workers hold the live state at step_
  bool found_ = true;                                    // step_ is not merely noted
  bool made_ = false;                                    // the noted events prove that the initial state was complete
  std::atomic<int64_t> bytes_verified_ = 0;
  // Real training:
  std::unique_ptr<TrainerWork> trainers_;  // null: emulated
  std::optional<Interruption> interruption_;
  TensorSums expected_;  // of the execution under way; empty: not known
};

// Empties the stores of these devices, all of one host, and tells all workers about the new stores. Errors: those of
// WorkerPool::call and WorkerPool::refresh.
absl::Status fail_devices(WorkerPool& pool, HostId host, const std::vector<DeviceId>& devices);

}  // namespace scalai::executor::controller
