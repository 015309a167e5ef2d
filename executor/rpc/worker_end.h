#pragma once
// A worker's end of the control plane. Commands run one at a time on the thread of run(); heartbeats continue on
// another thread. When the connection breaks, the worker keeps its state and tries to join again, so it outlives a dead
// controller for orphan_timeout_s.

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "executor/rpc/messages.h"

namespace scalai::proto {
class Welcome;
}

namespace scalai::executor::rpc {

struct WorkerOptions {
  std::string address;  // "127.0.0.1:7000"
  std::string token;
  std::string ca_file;  // set: TLS, and one of these must have signed the controller's certificate
  int32_t host = -1;    // index in the scenario; -1 = the controller chooses
  // Called before the worker joins, and again before it joins after a loss, then on another thread than the handler:
  // fills in what is the worker's own (transport_address, places, held).
  std::function<void(proto::Hello&)> introduce;
  // Called when the controller has lost another host's worker, at once, also during a command; on another thread than
  // the handler.
  std::function<void(int32_t host)> departed;
  // Called when a newer controller has welcomed this worker, before any of its commands, also while one of the earlier
  // controller's runs; on another thread than the handler. Workers that never heard of that command will not do their
  // part.
  std::function<void()> superseded;
  double connect_timeout_s = 30;
  double orphan_timeout_s = 60;  // run() returns after this time without a controller
  LogLine log;                   // connection lost, joined again; default: stderr
};

class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  // The last message of the controller at a join. Any thread.
  virtual proto::Welcome welcome() const = 0;
  // Runs commands until the end of the session. OK: dismissed, stopped, or a reply had `last`. Unavailable: no
  // controller for orphan_timeout_s, or only such that refused this worker or did not prove that they know the token.
  virtual absl::Status run(const CommandHandler& handler) = 0;
  // From any thread: run() says goodbye and returns after the running command. Pending commands are dropped.
  virtual void stop(const std::string& reason) = 0;
};

}  // namespace scalai::executor::rpc
