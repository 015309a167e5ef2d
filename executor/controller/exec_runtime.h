#pragma once
// The control loop's runtime on real workers: state is real bytes in worker processes, and a failure kills the process.
//
// Time. Decisions follow scenario time, which advances by modelled durations (training steps, links at the cluster's
// rates), so a scenario has equal plans here and in the simulator. Real work is awaited before its modelled end is
// reported; events due in the meantime happen in the meantime. Phases and transfers are reported as measured. With
// `time_scale` real time passes, too: this number of seconds per second of the scenario.
//
//   Command ──► agenda (modelled end) + work on the workers ──► Event, when both are over
//   WorkerLost without a command of ours ──► DevicesLost, at once
//
// One thread, except the work of one stage at a time, which runs on a thread of its own.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/controller/live_requests.h"
#include "executor/controller/live_steps.h"
#include "executor/controller/run_log.h"
#include "executor/controller/worker_pool.h"
#include "executor/rpc/controller_end.h"
#include "executor/trainers/trainers.h"
#include "ptc/run/control/runtime.h"

namespace scalai::executor::controller {

enum class VerifyMode : uint8_t { kFull, kSample, kNone };

struct ExecOptions {
  std::string folder;  // of the run; checkpoints are written there
  VerifyMode verify = VerifyMode::kFull;
  double time_scale = 0;
  change::StoreShares stores = {};    // of the strategy (change::Costs), for scenario time
  bool plan_only = false;             // no workers: makes plans, moves nothing (the pool has not started)
  RunLog* log = nullptr;              // outlives the runtime; null: nothing is recorded
  std::map<int, std::string> states;  // by job: file or folder of its real state (executor/worker/state_source.h)
  std::map<int, trainers::TrainerProgram> programs;  // by job: its trainers; a job without has emulated training
  // Real training whose scenario says nothing of time (scalai launch): it goes on past the modelled end of a checkpoint
  // whose files are not there yet, and that counts when they are. Otherwise it waits there.
  // Where the next one is due, training waits for it.
  bool late_checkpoints = false;
  // A job with real training leaves a checkpoint of its last step: before the control loop learns that the step is
  // done, or where the run ends before. A scenario whose cluster has no storage has none.
  bool last_checkpoint = true;
  bool standby = false;  // a trainer waits on each device of the cluster that its job does not use
  // By job: its index file, as workers find it; otherwise the scenario's index_path.
  std::map<int, std::string> datasets;
  // Called when a job begins to train in a layout with data-parallel degree `dp`, from `step` on: at the start, after
  // each commit, and once more when another controller takes over. Runs on the runtime's thread, which waits. May be
  // empty.
  std::function<void(int job, int dp, int64_t step)> on_layout;
  // Called when real training has come to this moment of the scenario, about once a second, by the same thread. May be
  // empty.
  std::function<void(double at_s)> on_time;
  // Called when a job's training program asks for another number of GPUs (0: it does not) or a checkpoint. May be
  // empty.
  std::function<void(int job, int gpus, bool save)> on_asked;
  LiveRequests* requests = nullptr;  // outlives the runtime; after adding a request, wake the controller by a note
  LiveSteps* live = nullptr;         // outlives the runtime; null: nobody reads live state
  // Continues a run of an earlier controller. `past`: its events without Started. They are delivered first, and the
  // work that followed from them counts as done. Then workers that join again within `rejoin_s` continue; the others
  // are lost.
  bool resume = false;
  std::vector<control::Event> past;
  double rejoin_s = 10;
};

class ExecRuntime : public control::Runtime {
 public:
  // All references outlive this object. The pool has started, except with plan_only.
  ExecRuntime(const scenario::Scenario& scenario, rpc::ControllerEnd& controller, WorkerPool& pool,
              control::Recorder& recorder, ExecOptions options);
  ~ExecRuntime() override;
  absl::Status perform(const control::Command& command) override;
  // Errors besides the Runtime's: wrong state (DataLoss, with the first places), a worker that failed a command.
  absl::StatusOr<control::Event> next_event() override;
  // Bytes of state compared with their expected content.
  int64_t bytes_verified() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalai::executor::controller
