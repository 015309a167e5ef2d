#pragma once
// What UCX finds on this machine: its version, and the transports a worker could use. Opens and closes what it looks at;
// for `scalai doctor`, not for a run. Any thread. No UCX header is needed to include this.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::executor {

struct UcxDevice {
  std::string transport;  // "tcp", "rc_mlx5", "posix"
  std::string device;     // "eth0", "mlx5_0:1", "memory"
  bool network = false;   // reaches other machines; else memory of this one
};

struct UcxInfo {
  std::string version;             // of the library that runs: "1.13.1"
  std::vector<UcxDevice> devices;  // by transport, then device; without loop-back
};

// Unavailable when no UcxTransport could be made here: the message says which call of UCX failed. UCX_TLS and
// UCX_NET_DEVICES, which narrow what a worker uses, count for that; the devices are those of the machine.
absl::StatusOr<UcxInfo> ucx_info();

}  // namespace scalai::executor
