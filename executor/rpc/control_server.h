#pragma once
// The controller's end over gRPC: one bidirectional stream per worker, and the Ctl service. Clients prove that they
// know the token, and get the same proof (internal/handshake.h); others get Unauthenticated, with one line in the log.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/rpc/controller_end.h"

namespace scalai::executor::rpc {

struct ServerOptions {
  std::string bind_address = "127.0.0.1:0";  // default: loopback only; port 0 = any free port
  std::string token;                         // from make_token() or read_token()
  std::string certificate_file;              // PEM; with key_file: TLS
  std::string key_file;
  bool state_on_network = false;  // workers move state over a network, not encrypted: one line says so, beyond loopback
  ControllerOptions controller;
  CtlHandler on_ctl;  // called on gRPC's threads; empty: the client is told that this controller takes no requests
  LogLine log;        // default: stderr
};

class ControlServer {
 public:
  // InvalidArgument: bad options. NotFound: no certificate files. Unavailable: the address (named) cannot be bound.
  static absl::StatusOr<std::unique_ptr<ControllerEnd>> start(const ServerOptions& options);
};

}  // namespace scalai::executor::rpc
