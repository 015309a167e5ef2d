#pragma once
// Worker: owns the devices of one host and runs the controller's commands on them. A repeated command has one effect
// and gets the same reply.
//
//   Command (CommandBody) ──► handle ──► Places (stores, peers), Execution (a plan under way), checkpoint files
//                                   ──► Reply (ReplyBody)
//
// Devices hold epochs of jobs. The host's memory holds snapshots, the initial state and staged state (StateVersion).
//
// Thread rules: handle() by one thread at a time; introduce() and note_…() from any thread; places() see there.

#include <memory>
#include <optional>

#include "executor/rpc/messages.h"
#include "executor/rpc/network.h"
#include "executor/worker/execution.h"
#include "executor/worker/places.h"

namespace scalai::executor::worker {

class Worker {
 public:
  struct Options {
    HostId host;
    state::SegmentOptions segments;  // for the memory of each place
    int64_t device_limit =
        state::SegmentOptions{}.limit;              // most bytes of a device's memory, if less than segments.limit
    std::shared_ptr<device::Backend> backend;       // the kind of devices; null: devices in the host's memory
    std::vector<HostId> hosts_here{};               // hosts that share the back end, in its order; empty: `host` alone
    std::shared_ptr<LocalStores> locals;            // stores of all workers of this process; null: no other workers
    transport::PeerTransport* transport = nullptr;  // to other machines; outlives the worker; null: none
    rpc::Interface network{.loopback = true, .address = "127.0.0.1"};  // where trainers of several hosts meet
    std::optional<nccl::NcclApi> nccl{};  // carries state between GPUs of several workers; none: receivers pull
  };
  explicit Worker(const Options& options);
  ~Worker();

  // Runs one command. Errors are in the reply's status: InvalidArgument (the bytes are no command, or name a version
  // that is none), FailedPrecondition (no setup yet; a round without its plan), NotFound (a version that this worker
  // does not hold), and those of Places, Execution and checkpoint files.
  rpc::Reply handle(const rpc::Command& command);
  // Fills in places (after setup) and what is held: the epochs that devices hold, or have room for.
  void introduce(proto::Hello& hello) const;
  // The controller has lost this host's worker: no exchange waits for it, also one under way.
  void note_departed(HostId host) { places_.note_departed(host); }
  // A newer controller takes over: an exchange that the earlier one had begun, perhaps not everywhere, is given up.
  void note_superseded() { places_.note_superseded(); }
  // Valid while the worker lives. Other threads may call Places::answer() only.
  const Places& places() const { return places_; }

 private:
  class Commands;
  const std::shared_ptr<device::Backend> backend_;
  const std::shared_ptr<LocalStores> locals_;
  Places places_;
  std::unique_ptr<Commands> commands_;
};

}  // namespace scalai::executor::worker
