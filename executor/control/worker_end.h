#pragma once
// A worker's end of the control plane. Commands run one at a time on the thread that calls run(); heartbeats go on
// meanwhile. When the connection breaks, the worker keeps its state and tries to join again, so that it outlives a dead
// controller for a while.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "executor/control/messages.h"

namespace scalai::executor {

struct WorkerOptions {
  std::string address;  // "127.0.0.1:7000"
  std::string token;
  std::string ca_file;  // set: TLS, and the controller's certificate must be signed by one of these
  Hello hello;
  // Called before each joining again, on another thread than the handler's: fills in what has changed (held, places).
  std::function<void(Hello&)> refresh;
  double connect_timeout_s = 30;
  double orphan_timeout_s = 60;  // without a controller for so long: run() returns
  LogLine log;                   // lost, joined again; default: stderr
};

class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  // What the controller said last.
  virtual Welcome welcome() const = 0;
  // Runs commands until the end. Ok: dismissed, stopped, or a reply was the last one.
  // Unavailable: no controller for orphan_timeout_s. FailedPrecondition, Unauthenticated: refused when it came back.
  virtual absl::Status run(const CommandHandler& handler) = 0;
  // From any thread: run() says goodbye and returns once the running command is done. Commands not begun are dropped.
  virtual void stop(const std::string& reason) = 0;
};

}  // namespace scalai::executor
