#pragma once
// Sync: the weights of a training run in the memories of receivers, step after step, for readers there (executor/live).
//
//   LiveStep of the training run ─► bring(): prepare ─► rounds ─► commit ─┐     receivers read the run's workers
//        of the receivers' readers ─► answer() ─► rest(): show ◄──────────┘     in place, and each other
//
// All receivers have the step, or all stay at the one before: whoever is lost, of either run. What is the same in both
// steps, by the digests that the run's workers made, does not travel.
//
// Thread rules: answer() from any thread; all else from one.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/controller/live_steps.h"
#include "executor/controller/worker_pool.h"
#include "executor/sync/sync_plan.h"

namespace scalai::executor::sync {

// What one step cost.
struct Synced {
  int64_t step = 0;
  int64_t state_bytes = 0;    // of all receivers' devices
  int64_t planned_bytes = 0;  // that the plan moves between devices
  int64_t least_bytes = 0;    // that any plan with this placement must move
  int64_t moved_bytes = 0;    // of the plan's, those that were not there
  // Read out of the training run's memories; the rest of what moved receivers pass on. With transforms in the run's
  // types, and whole rows where they need these, so that it may be more than what moved.
  int64_t read_bytes = 0;
  double hottest_sender =
      0;  // most bytes that one device of the run gave / their mean over devices that gave some; 0: none
  double seconds = 0;
};

// The step to bring next, where one of every `every` steps is brought, counted from `first`. A step that came late does
// not put off the next: 4, 14, 24 for every 10 from 4, though 16 came in place of 14.
int64_t next_due(int64_t first, int64_t held, int64_t every);

class Sync {
 public:
  struct Options {
    std::string place;  // of the training run, for messages
    SyncTarget target;
    int first_host = 0;                  // hosts of the training run
    std::function<bool()> stopped = {};  // bring() ends soon, with Cancelled
  };
  // All references outlive this object. The pool has both runs' hosts (joint_cluster).
  Sync(const cluster::Cluster& cluster, rpc::ControllerEnd& controller, controller::WorkerPool& pool, Options options);

  // Brings a step. After an error all receivers are at the step before. Unavailable and others that may pass: somebody
  // was lost; receivers come back with the next call. InvalidArgument, and other lasting ones: this run's state does
  // not fit.
  absl::StatusOr<Synced> bring(const live::LiveStep& step);
  // Whether all receivers have the last step.
  bool is_whole() const;
  // The training run is over: its memory is no longer held on to. Errors: those of WorkerPool::introduce.
  absl::Status part();

  // Serves readers and receives losses of receivers, for so long.
  void rest(double seconds);
  // Requests of readers and of `scalai exec ctl status`.
  absl::StatusOr<std::string> answer(const proto::CtlRequest& request);
  // Whoever waits in answer() is told that it is over. Any thread.
  void end() { live_.end(); }

 private:
  absl::Status check_cluster(const proto::LiveState& state) const;
  absl::Status gather();
  absl::Status transfer(const live::LiveStep& step, state::StateVersion version, Synced& synced);
  absl::Status commit(state::StateVersion version);
  void forget(state::StateVersion version);
  void serve();
  void serve_events(double timeout_s);
  std::set<HostId> receivers() const;
  std::string status() const;

  const cluster::Cluster& cluster_;
  rpc::ControllerEnd& controller_;
  controller::WorkerPool& pool_;
  const Options options_;
  controller::LiveSteps live_;
  std::vector<std::string> peers_;  // of the training run, as introduced
  std::string planned_for_;         // the layout that plan_ is from
  std::shared_ptr<const SyncPlan> plan_;
  int64_t next_epoch_ = 0;
  std::string steps_digest_;  // of the target's transforms, at the first plan
  StepDigests digests_;       // of the step that receivers have
  std::set<HostId> holders_;  // of it
  struct Held {
    std::string job, model;
    int64_t step = -1;  // none yet
    std::shared_ptr<const collection::Collection> collection;
  };
  mutable std::mutex mutex_;  // guards held_: answer() reads it
  Held held_;
};

}  // namespace scalai::executor::sync
