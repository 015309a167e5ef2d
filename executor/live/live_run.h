#pragma once
// LiveRun: the state of running jobs, read from outside of their run. One step at a time, out of the memories of the
// hosts that train it: nothing goes through the controller, and nothing is fetched before somebody reads.
//
//   LiveRun.newest("a") ── CtlLive ──► controller ── show ──► workers: the step, where it is or beside what is trained
//        │                                 │
//        ▼                                 └── LiveState: collection, version, places
//   LiveStep.read(box) ── memory of this machine: mapped ──► PeerSegment
//                      ── elsewhere ────────────────────────► PeerTransport: other readers that have it, else workers
//
// A step stays as it is as long as its LiveStep lives: a thread of the LiveRun says so every few seconds. A fleeting
// one stays until training rewrites it. If the controller ends or has not heard of it for a minute, reads are
// FailedPrecondition: never bytes of another step. A host that dies costs a read only where no other host has the same
// part.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/live/live_bytes.h"
#include "executor/live/sharing.h"
#include "executor/rpc/ctl.h"
#include "executor/transport/peer_transport.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::proto {
class LiveState;
}

namespace scalai::executor::live {

// Any thread. Owns what it reads through.
class LiveStep {
 public:
  virtual ~LiveStep() = default;
  virtual const store::Stamp& stamp() const = 0;  // job and step
  virtual bool is_kept() const = 0;               // false: from now on reads fail
  // The step as a checkpoint, which any view of it reads. It does not keep the step: its reads are FailedPrecondition
  // when this object is gone.
  virtual const std::shared_ptr<const store::Checkpoint>& checkpoint() const = 0;
  // What the controller said of it. Valid while this object lives.
  virtual const proto::LiveState& state() const = 0;
};

struct LiveOptions {
  rpc::CtlTarget target;
  std::string place;         // of the run, for messages
  bool optimizer = false;    // masters and moments, too
  bool fleeting = false;     // no step is copied for us: it may go while we read
  int64_t digest_bytes = 0;  // digests of so many bytes each (LiveState::digests); 0: none
  bool stats = false;        // statistics instead of elements (live_stats.h): reads are FailedPrecondition
  int64_t version = 0;       // only this one, which another reader keeps (LiveState::version); 0: the newest
  double patience_s = 60;    // for a job that changes, or whose step takes long
  double word_s = 5;         // between two words to the controller
  int64_t kept_bytes = int64_t{256} << 20;  // of each step, of what came in blocks
  // To other machines; outlives all steps; null: those of this one are read.
  transport::PeerTransport* transport = nullptr;
  // What other readers get of what is kept: its answer() is the transport's handler. Null: nothing, and all is read
  // from workers.
  std::shared_ptr<ServedBlocks> served = {};
  double wait_s = 1;       // for a block that another reader is fetching
  AskController ask = {};  // in place of the target, for tests
};

class LiveRun {
 public:
  explicit LiveRun(LiveOptions options);
  ~LiveRun();

  // The state of the job ("": the only one) as it is, or the first after `after_step`; the one that is kept already if
  // it is still the newest. Errors: those of ask_controller; DeadlineExceeded (no such step within patience_s),
  // ResourceExhausted (no memory for it, or readers keep too many).
  absl::StatusOr<std::shared_ptr<const LiveStep>> newest(const std::string& job, int64_t after_step = -1);
  LiveBytes bytes() const;  // any thread

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace scalai::executor::live
