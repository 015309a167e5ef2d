#pragma once
// The network interface by which this machine reaches a controller. Free functions; any thread.

#include <string>

#include "absl/status/statusor.h"

namespace scalai::executor::rpc {

struct Interface {
  std::string name;       // "lo", "eth0"
  bool loopback = false;  // reaches this machine only
  std::string address;    // of this machine, as numbers: "10.0.0.3"
};

// The interface with the local address of a connection to HOST:PORT; nothing is sent. A controller on an address of
// this machine is reached over that address's interface. InvalidArgument: not HOST:PORT. Unavailable: the name is not
// known, or there is no way to it.
absl::StatusOr<Interface> interface_to(const std::string& address);

}  // namespace scalai::executor::rpc
