#pragma once
// A worker: owns the devices of one host and does what the controller says. Everything it does is one command, and
// every command may come twice.
//
//   Command (CommandBody) ──► handle ──► Places (stores, peers), Execution (a plan under way), checkpoint files
//                                   ──► Reply (ReplyBody)
//
// Versions: an epoch of a job on devices; in the host's memory snapshots, under their numbers, and what is staged.
// One thread; the transport answers others meanwhile.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "executor/control/messages.h"
#include "executor/worker/execution.h"
#include "executor/worker/places.h"

namespace scalai::executor {

// In a host's memory: what a plan of a staged strategy reads.
inline constexpr int64_t kStagedVersion = -2;

class Worker {
 public:
  struct Options {
    HostId host;
    SegmentOptions segments;                        // of each place
    int64_t device_limit = SegmentOptions{}.limit;  // of a device's own memory, where that is less
    std::shared_ptr<Backend> backend;               // what its devices are; null: the host's memory
    std::vector<HostId> hosts_here{};               // that share it, in this order; empty: this one alone
    std::shared_ptr<LocalStores> locals;            // of all workers of this process; null: there are no others
    PeerTransport* transport = nullptr;             // to other machines; outlives the worker
    std::optional<NcclApi> nccl{};                  // carries what goes between GPUs of workers; none: they pull
  };
  explicit Worker(Options options);
  ~Worker();

  Reply handle(const Command& command);
  // What a controller that this worker joins should know: its places, once they are set up, and the epochs that it holds
  // or has prepared to hold. From any thread.
  void introduce(Hello& hello) const;
  const Places& places() const { return places_; }

 private:
  struct Job;
  class Handling;
  const std::shared_ptr<Backend> backend_;
  const std::shared_ptr<LocalStores> locals_;
  Places places_;
  std::unique_ptr<Exchange> exchange_;
  int threads_ = 1;
  bool force_network_ = false;
  std::map<int32_t, std::unique_ptr<Job>> jobs_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<WorkerPlace> own_places_;
  std::map<VersionKey, int64_t> held_;  // step by version
};

}  // namespace scalai::executor
