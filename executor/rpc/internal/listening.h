#pragma once
// "127.0.0.1:7000", "[::1]:0", "node7:7000": sockets that listen there. One of "0.0.0.0" takes IPv6 as well, as gRPC's
// do.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/file_descriptor.h"

namespace scalai::executor::rpc::internal {

struct Listening {
  std::vector<FileDescriptor> sockets;  // of each address of the name; not blocking
  std::string host;                     // as written, with brackets
  int port = 0;                         // of all of them
  bool loopback = false;
};

// Errors: InvalidArgument (not HOST:PORT), Unavailable (in use, no such address; named).
absl::StatusOr<Listening> listen_on(const std::string& address);

}  // namespace scalai::executor::rpc::internal
