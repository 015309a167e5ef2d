#pragma once
// The workers of a run, as the controller sees them: one a host. Packs commands, unpacks replies, starts and ends workers.
//
// Thread rules: call(), living() and living_hosts_of() from any thread; the rest from the thread of the control loop.

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/control/controller_end.h"
#include "ptc/plan/cluster.h"

namespace scalai::proto {
class CommandBody;
class ReplyBody;
}  // namespace scalai::proto

namespace scalai::executor {

struct CrewOptions {
  int threads = 1;             // of each worker; 0: it decides
  bool force_network = false;  // no shared memory between workers of one machine
  bool nccl = false;           // workers' GPUs are ranks of one communicator
  double deadline_s = 600;     // of any command
  double join_s = 60;          // a worker joins within this time of its start
  // Starts or kills the worker of a host; empty: somebody else does, and a worker is asked to leave instead.
  std::function<absl::Status(HostId)> start_worker, kill_worker;
  // Workers that were started here and have ended since the last call, and how ("exit code 3, see FILE").
  std::function<std::vector<std::pair<HostId, std::string>>()> ended_workers;
};

class Crew {
 public:
  // All outlive this.
  Crew(const plan::Cluster& cluster, ControllerEnd& controller, CrewOptions options);

  // Starts the workers of all hosts, waits for them and tells them about each other. A worker that is lost
  // meanwhile had nothing yet: the next one takes its place, and only after some is that an error.
  absl::Status start();
  // For a controller that goes on where another one ended: waits `patience_s` for the workers of these hosts to join
  // again, sets up those that have and tells them about each other. Others are not living.
  absl::Status rejoin(const std::set<HostId>& hosts, double patience_s);
  // What a worker said of itself when it joined; nothing when it is not connected.
  Hello hello_of(HostId host) const;
  // Starts the worker of one host, whose last one is gone. Unavailable: this one is lost, too.
  absl::Status revive(HostId host);
  // Its worker is gone, or goes now.
  absl::Status kill(HostId host);
  void lost(HostId host) {
    const std::lock_guard lock(mutex_);
    living_.erase(host);
  }
  void found(HostId host) {
    const std::lock_guard lock(mutex_);
    living_.insert(host);
  }
  // A worker's places have changed: everyone is told. Unavailable: it is lost.
  absl::Status refresh(HostId host);
  // Whether it is the worker that lives, not one before it.
  bool is_ours(const WorkerLost& lost) const;
  // Tells everyone where everyone's places are.
  absl::Status introduce();
  // The same, when workers have been lost since: what is mapped of their memory is the machine's again only then.
  absl::Status let_go_of_the_lost();

  std::set<HostId> living() const {
    const std::lock_guard lock(mutex_);
    return living_;
  }
  std::set<HostId> living_hosts_of(const std::vector<DeviceId>& devices) const;
  // Whether who has state sends it: it takes part in rounds, too.
  bool holders_send() const { return options_.nccl; }

  using Calls = std::vector<std::pair<HostId, proto::CommandBody>>;
  // One reply a call, in order; the first loss or error otherwise.
  absl::StatusOr<std::vector<proto::ReplyBody>> call(const std::string& what, const Calls& calls);
  absl::StatusOr<std::vector<proto::ReplyBody>> call(const std::string& what, const std::set<HostId>& hosts,
                                                     const proto::CommandBody& body);

  // Tells all of these that are connected, however many are lost meanwhile. Errors: what a worker made of it.
  absl::Status tell(const std::string& what, const std::set<HostId>& hosts, const proto::CommandBody& body);

 private:
  // Starts the workers of these hosts that are not connected, and waits for all of them.
  absl::Status gather(const std::set<HostId>& hosts);
  absl::Status set_up(const std::set<HostId>& hosts);
  absl::Status join(const std::set<HostId>& hosts);
  std::set<HostId> connected() const;
  // Whether the connected workers came to be as wanted within the time.
  bool eventually(const std::function<bool(const std::set<HostId>&)>& wanted, double patience_s) const;

  const plan::Cluster& cluster_;
  ControllerEnd& controller_;
  const CrewOptions options_;
  mutable std::mutex mutex_;  // guards living_
  std::set<HostId> living_;
  std::vector<std::string> peers_;  // by host: its Peer, serialized
  std::vector<int64_t> sessions_;   // by host: of the worker that was set up last
  std::set<HostId> introduced_;     // who lived when everyone was told last
};

}  // namespace scalai::executor
