#pragma once
// Who is at the other end of a TCP connection. Thread rules of an int.

#include <string>

#include "ptc/base/file_descriptor.h"

namespace scalai::executor::rpc::internal {

// "10.0.0.7:4711", "fe80::1:4711"; empty: the connection is gone.
std::string peer_of(int fd);
// The same from gRPC's name of a peer: "ipv4:10.0.0.7:4711", "ipv6:%5Bfe80::1%25eth0%5D:4711".
std::string peer_of(const std::string& grpc_peer);

// Tells parties apart. Those of this machine are users, which the kernel names (NETLINK_SOCK_DIAG): there one address
// is everybody's.
class Parties {
 public:
  Parties();
  // "user 1000", "10.0.0.7". Where the kernel does not name users it is the address.
  std::string of(int fd) const;

 private:
  FileDescriptor netlink_;
};

}  // namespace scalai::executor::rpc::internal
