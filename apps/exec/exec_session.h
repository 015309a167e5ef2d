#pragma once
// A controller and its workers, for every command that moves real state. One thread.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/common/runs/state_options.h"
#include "executor/controller/worker_pool.h"
#include "executor/rpc/control_server.h"
#include "executor/rpc/process.h"
#include "executor/rpc/worker_deaths.h"
#include "ptc/base/command.h"

namespace scalai::apps {

struct SessionOptions {
  executor::rpc::ServerOptions server;  // address, token, certificate, epoch, on_ctl; start() sets the number of hosts
  std::string log_folder;               // of local workers
  bool local = true;             // start the workers on this machine; otherwise wait for workers that others start
  std::string launcher;          // command that starts the workers instead; then `local` is false
  std::string token_file;        // with a launcher: where workers find the token
  StateOptions state;            // how workers keep and move state
  double orphan_timeout_s = 60;  // of workers started here
  std::function<bool()> stopped = {};  // WorkerPoolOptions
  int first_host = 0;                  // hosts of the cluster before it are another run's (WorkerPoolOptions)
  std::vector<std::string> by_ssh;  // machines of the workers, each of which sees the log folder; then `local` is false
};

// --transport=shared-memory|ucx, for commands that measure state in host memory.
OptionSpec transport_option();

class Session {
 public:
  // Binds the address and creates the pool, not yet started. The cluster outlives the session.
  static absl::StatusOr<std::unique_ptr<Session>> start(const cluster::Cluster& cluster, SessionOptions options);
  // For a measurement: local workers, a token of its own, no ctl requests, and patience with a busy machine.
  static absl::StatusOr<std::unique_ptr<Session>> start_measuring(const cluster::Cluster& cluster, StateOptions state,
                                                                  const std::string& log_folder,
                                                                  double orphan_timeout_s = 60);
  // Does not end workers: they continue as after a crash; see dismiss().
  ~Session() = default;

  // Both live as long as the session.
  executor::rpc::ControllerEnd& controller() { return *controller_; }
  executor::controller::WorkerPool& pool() { return *pool_; }
  // Ends the run: workers leave, and all started processes are gone on return.
  void dismiss();

 private:
  explicit Session(const std::string& log_folder) : spawner_(log_folder) {}
  executor::rpc::Spawner spawner_;
  executor::rpc::WorkerDeaths deaths_{spawner_};
  std::unique_ptr<executor::rpc::ControllerEnd> controller_;
  std::unique_ptr<executor::controller::WorkerPool> pool_;
};

}  // namespace scalai::apps
