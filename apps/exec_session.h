#pragma once
// A controller and its workers: what every command that moves real state starts and ends.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "apps/state_options.h"
#include "executor/control/control_server.h"
#include "executor/control/process.h"
#include "executor/runtime/crew.h"
#include "ptc/base/command.h"

namespace scalai::apps {

struct SessionOptions {
  executor::ServerOptions server;  // address, token, certificate, epoch, on_ctl; the number of hosts is filled in
  std::string log_folder;          // of local workers
  bool local = true;               // start the workers on this machine; else wait for those that others start
  StateOptions state;              // how workers keep and move state
  double orphan_timeout_s = 60;    // of local workers
};

// --transport=shared-memory|ucx, of commands that measure state in host memory.
OptionSpec transport_option();

class Session {
 public:
  // Binds the address and makes the crew, which has not started. The cluster outlives this.
  static absl::StatusOr<std::unique_ptr<Session>> start(const plan::Cluster& cluster, SessionOptions options);
  // For a measurement: with local workers, a secret of its own, and nobody who asks or steers.
  static absl::StatusOr<std::unique_ptr<Session>> start_measuring(const plan::Cluster& cluster, StateOptions state,
                                                                  const std::string& log_folder);
  // Workers are left to themselves, as after a crash; see dismiss().
  ~Session() = default;

  executor::ControllerEnd& controller() { return *controller_; }
  executor::Crew& crew() { return *crew_; }
  // The end: workers leave, and the processes that were started are gone.
  void dismiss();

 private:
  explicit Session(const std::string& log_folder) : spawner_(log_folder) {}
  executor::Spawner spawner_;
  std::unique_ptr<executor::ControllerEnd> controller_;
  std::unique_ptr<executor::Crew> crew_;
};

}  // namespace scalai::apps
