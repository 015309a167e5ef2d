#pragma once
// The workers of a run, one per host: packs commands, unpacks replies, starts and ends workers.
//
// Thread rules: call(), living() and living_hosts_of() from any thread; all else from the thread of the control loop.

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/rpc/controller_end.h"
#include "ptc/cluster/cluster.h"

namespace scalai::proto {
class CommandBody;
class Peer;
class ReplyBody;
}  // namespace scalai::proto

namespace scalai::executor::controller {

struct WorkerPoolOptions {
  int threads = 1;                     // of each worker; 0: the worker decides
  bool force_network = false;          // no shared memory between workers of one machine
  bool nccl = false;                   // workers' GPUs are ranks of one communicator
  double deadline_s = 600;             // of each command: so long a worker may do nothing
  double join_s = 60;                  // a worker joins within this time of its start
  std::function<bool()> stopped = {};  // nobody waits for workers any more: gathering them ends with Cancelled
  int first_host = 0;                  // hosts before it are another run's: their devices have numbers here, no workers
  // Start or kill the worker of a host. Empty: an external program does it, and a worker is asked to leave instead.
  std::function<absl::Status(HostId)> start_worker, kill_worker;
  // Own workers that ended since the last call, with the reason ("exit code 3, see FILE").
  std::function<std::vector<std::pair<HostId, std::string>>()> ended_workers;
  // Why an own worker whose connection is gone has ended, in the same words; "" if nothing is known.
  std::function<std::string(HostId)> why_lost = {};
};

class WorkerPool {
 public:
  // All references outlive this object.
  WorkerPool(const cluster::Cluster& cluster, rpc::ControllerEnd& controller, WorkerPoolOptions options);

  // Starts the workers of all hosts, waits for them and sends them each other's addresses. A worker that is lost
  // meanwhile is started again, because it had no state; an error after three attempts.
  absl::Status start();
  // For a controller that continues a run: waits `patience_s` for the workers of these hosts to join again, sets up
  // those that did and sends them each other's addresses. The other hosts are not living; their workers are ended.
  absl::Status rejoin(const std::set<HostId>& hosts, double patience_s);
  // The Hello of a worker; an empty one if it is not connected.
  proto::Hello hello_of(HostId host) const;
  // Starts the worker of one host whose last one is gone. Unavailable: the new one is lost, too.
  absl::Status revive(HostId host);
  // Ends the worker of a host and removes it from the living hosts.
  absl::Status kill(HostId host);
  void lost(HostId host) {
    const std::lock_guard lock(mutex_);
    living_.erase(host);
  }
  void found(HostId host) {
    const std::lock_guard lock(mutex_);
    living_.insert(host);
  }
  // Sets up a worker whose places have changed, and informs all workers. Unavailable: it is lost.
  absl::Status refresh(HostId host);
  // Why this worker is gone, as far as this machine can know, with the reason of its connection's end.
  std::string why_lost(const rpc::WorkerLost& lost) const;
  // True if `lost` is the present worker of its host, not an earlier one.
  bool is_ours(const rpc::WorkerLost& lost) const;
  // Sends all workers the places of all workers, and those of others.
  absl::Status introduce();
  // Workers of another run, whose places introduce() tells ours.
  void set_others(const std::vector<proto::Peer>& others);
  // The same if workers were lost since the last time: only then the machine gets back the mapped memory of lost
  // workers.
  absl::Status let_go_of_the_lost();

  std::set<HostId> living() const {
    const std::lock_guard lock(mutex_);
    return living_;
  }
  std::set<HostId> living_hosts_of(const std::vector<DeviceId>& devices) const;
  // Where the places of a host's worker are, as introduce() tells others.
  proto::Peer peer_of(HostId host) const;
  bool forces_network() const { return options_.force_network; }
  // True if holders of state send it, so that they take part in rounds, too.
  bool holders_send() const { return options_.nccl; }

  using Calls = std::vector<std::pair<HostId, proto::CommandBody>>;
  // One reply per call, in order; otherwise the first loss or error.
  absl::StatusOr<std::vector<proto::ReplyBody>> call(const std::string& what, const Calls& calls);
  absl::StatusOr<std::vector<proto::ReplyBody>> call(const std::string& what, const std::set<HostId>& hosts,
                                                     const proto::CommandBody& body);

  // Sends `body` to all connected workers of these hosts, again after a loss. Errors: those of the workers.
  absl::Status tell(const std::string& what, const std::set<HostId>& hosts, const proto::CommandBody& body);

 private:
  // Starts the workers of these hosts that are not connected, and waits for all.
  absl::Status gather(const std::set<HostId>& hosts);
  absl::Status set_up(const std::set<HostId>& hosts);
  absl::Status join(const std::set<HostId>& hosts);
  std::set<HostId> connected() const;
  // True if the set of connected workers satisfied `wanted` within `patience_s`.
  bool eventually(const std::function<bool(const std::set<HostId>&)>& wanted, double patience_s) const;

  const cluster::Cluster& cluster_;
  rpc::ControllerEnd& controller_;
  const WorkerPoolOptions options_;
  mutable std::mutex mutex_;  // guards living_
  std::set<HostId> living_;
  std::vector<std::string> peers_;   // by host: its serialized Peer
  std::vector<int64_t> sessions_;    // by host: session of the worker that was set up last
  std::vector<int64_t> pids_;        // by host: its process
  std::vector<std::string> others_;  // serialized Peers
  std::set<HostId> introduced_;      // living hosts at the last introduce()
};

}  // namespace scalai::executor::controller
