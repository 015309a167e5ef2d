#pragma once
// JobCommands: the commands to workers about one job, packed and sent. It knows the job, but nothing of its state: the
// caller says which collection, version and step.
//
// Thread rules: any thread, as WorkerPool::call.

#include <atomic>
#include <span>

#include "executor/controller/live_steps.h"
#include "executor/controller/worker_pool.h"
#include "executor/state/state_version.h"
#include "ptc/run/control/runtime.h"
#include "ptc/store/safetensors/job_checkpoint.h"

namespace scalai::executor::controller {

struct ExecOptions;

// The version under which hosts' memories hold a copy. CHECK: it is one, not the live state.
state::StateVersion version_of(control::SnapshotId snapshot);

// The devices of the collection, less those that are gone.
std::vector<DeviceId> living(const collection::Collection& side, const std::set<DeviceId>& gone);

class JobCommands {
 public:
  // `job` is the job's index in the scenario. The references outlive this object.
  JobCommands(int job, const scenario::Scenario& scenario, WorkerPool& pool, const ExecOptions& options)
      : job_(job), scenario_(scenario), pool_(pool), options_(options) {}

  // Errors of all functions are those of WorkerPool::call, or of WorkerPool::tell where nothing comes back.

  // The state of `step` on the collection's devices.
  absl::Status create(const collection::Collection& side, int64_t step);
  // Training to `step`, on all devices but those that are gone.
  absl::StatusOr<std::vector<proto::ReplyBody>> advance(const collection::Collection& side, int64_t step,
                                                        const std::set<DeviceId>& gone);
  // These hosts keep a trainer ready on each device.
  absl::Status stand_by(const std::set<HostId>& hosts);
  // The source of a staged strategy's plan, into hosts' memories; nothing for other strategies.
  absl::Status stage(const control::Execute& execute);
  // `checkpoint`: the folder that the plan reads; empty: the content of its step.
  absl::Status prepare(const control::Execute& execute, const std::string& checkpoint);
  // All hops of a round. Adds its transfers, sorted by end, counted from `start_s`.
  absl::Status round(const control::Execute& execute, int round, double start_s,
                     std::vector<control::TransferRecord>& transfers);
  // Compares the new epoch with its closed form, and adds the bytes compared. DataLoss: wrong state, with the first
  // places.
  absl::Status verify(const control::Execute& execute, std::atomic<int64_t>& bytes);
  absl::Status commit(int64_t epoch);
  absl::Status forget(state::StateVersion version);
  // All that is shown to readers, by whomever.
  absl::Status forget_live();
  // Copies the devices' state into their hosts' memories, and these boxes to others'.
  absl::Status copy_to_hosts(const collection::Collection& side, state::StateVersion version,
                             std::span<const collection::ExtraHolder> copies);
  // Shows the devices' state in place. Nothing of it is left after an error.
  absl::StatusOr<proto::LiveState> show_live(const collection::Collection& side, int64_t step,
                                             state::StateVersion version, const LiveSteps::Kind& kind);

  // The files of a checkpoint that workers write.
  struct Files {
    store::Writer writer;
    control::SnapshotId tag = 0;
    std::set<HostId> hosts = {};  // that write in the background
  };
  // Without `in_background` workers write before they answer, and the checkpoint is complete. Errors also:
  // store::Writer's.
  absl::Status write(Files& files, const collection::Collection& side, int64_t step, bool in_background);
  // Completes the checkpoint; false: some host is busy with it. Errors: as of write().
  absl::StatusOr<bool> complete(Files& files);

  const std::string& name() const { return spec().name; }
  // File or folder of the job's real state; empty: it begins with the closed form, or as the training program makes it.
  std::string state_path() const;

 private:
  const scenario::JobSpec& spec() const { return scenario_.jobs[static_cast<size_t>(job_)]; }
  template <class Body>
  void set_job(Body& body) const;

  const int job_;
  const scenario::Scenario& scenario_;
  WorkerPool& pool_;
  const ExecOptions& options_;
};

}  // namespace scalai::executor::controller
