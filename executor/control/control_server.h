#pragma once
// The controller's end over gRPC: one bidirectional stream a worker, and the Ctl service.
// Whoever connects must know the token; a stranger gets Unauthenticated, and one line goes to the log.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/control/controller_end.h"

namespace scalai::executor {

struct ServerOptions {
  std::string bind_address = "127.0.0.1:0";  // loopback unless told otherwise; port 0 = any free one
  std::string token;                         // of make_token() or read_token()
  std::string certificate_file;              // PEM; with key_file: TLS
  std::string key_file;
  ControllerOptions controller;
  CtlHandler on_ctl;  // on gRPC's threads; none: who asks is told that this controller takes no requests
  LogLine log;        // default: stderr
};

class ControlServer {
 public:
  // Errors: InvalidArgument (options), NotFound (certificate files), Unavailable (the address cannot be bound; named).
  static absl::StatusOr<std::unique_ptr<ControllerEnd>> start(ServerOptions options);
};

}  // namespace scalai::executor
