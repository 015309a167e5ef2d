#pragma once
// The control loop's runtime on real workers: state is real bytes in worker processes, a failure kills the process.
//
// Time. Decisions follow scenario time, which goes on by modelled durations (training steps, links at the cluster's rates),
// so that a scenario has the same plans here and in the simulator; what is real is waited for before the modelled end of
// it is reported, and events due meanwhile happen meanwhile. Phases and transfers are reported as measured.
// With `time_scale` real time passes, too: so many seconds a second of the scenario.
//
//   Command ──► agenda (modelled end) + work on the workers ──► Event, when both are over
//   WorkerLost that nobody asked for ──► DevicesLost, at once
//
// One thread, but for the work of one stage at a time, which runs on a thread of its own.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/control/controller_end.h"
#include "executor/runtime/crew.h"
#include "executor/runtime/live_requests.h"
#include "executor/runtime/run_log.h"
#include "ptc/control/runtime.h"

namespace scalai::executor {

enum class VerifyMode : uint8_t { kFull, kSample, kNone };

struct ExecOptions {
  std::string folder;  // of the run: checkpoints are written there
  VerifyMode verify = VerifyMode::kFull;
  double time_scale = 0;
  bool plan_only = false;               // no workers: plans are made, nothing moves (the crew has not started)
  RunLog* log = nullptr;                // outlives the runtime; null: nothing is written down
  std::map<int, std::string> states;    // by job: file or folder of its real state (executor/worker/state_source.h)
  std::map<int, std::string> datasets;  // by job: its index file, as workers find it; else the scenario's index_path
  // A job begins to train in a layout with that data-parallel degree, from that step on: at the start, after each
  // commit, and once more when another controller takes over. In the thread of the runtime, which waits. Empty: nobody
  // wants to know.
  std::function<void(int job, int dp, int64_t step)> on_layout;
  LiveRequests* requests = nullptr;  // outlives the runtime; whoever adds one wakes the controller with a note
  // This controller goes on where another one ended. `past`: its events, Started left out. They are told again first, and
  // what was done about them is taken as done. Then the workers that join again within `rejoin_s` go on, and those that do
  // not are lost.
  bool resume = false;
  std::vector<control::Event> past;
  double rejoin_s = 10;
};

class ExecRuntime : public control::Runtime {
 public:
  // All outlive this. The crew has started.
  ExecRuntime(const control::Scenario& scenario, ControllerEnd& controller, Crew& crew, control::Recorder& recorder,
              ExecOptions options);
  ~ExecRuntime() override;
  absl::Status perform(const control::Command& command) override;
  // Errors besides the Runtime's: state that is not what it should be (DataLoss, with the first places), a worker that
  // could not do what it was told.
  absl::StatusOr<control::Event> next_event() override;
  // Bytes of state that were compared with what they should be.
  int64_t bytes_verified() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scalai::executor
