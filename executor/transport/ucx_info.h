#pragma once
// UCX on this machine: its version, and the transports a worker could use. For `scalai doctor`, not for a run: opens
// and closes everything it queries. Any thread. Needs no UCX header.

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::executor::transport {

struct UcxDevice {
  std::string transport;  // "tcp", "rc_mlx5", "posix"
  std::string device;     // "eth0", "mlx5_0:1", "memory"
  bool network = false;   // reaches other machines; false: memory of this one
};

struct UcxInfo {
  std::string version;             // of the loaded library: "1.13.1"
  std::vector<UcxDevice> devices;  // sorted by transport, then device; without loop-back
};

// Unavailable: no UcxTransport can be created here; the message names the failed call of UCX. UCX_TLS and
// UCX_NET_DEVICES, which restrict a worker, count for this error; the list has all devices of the machine.
absl::StatusOr<UcxInfo> ucx_info();

// The devices (UcxOptions::devices) of a worker that reaches its controller over `interface`: of TCP only this one, so
// that it listens nowhere else. With a loopback interface that is all; otherwise RDMA devices too, which no interface
// names.
std::string ucx_devices_on(const std::string& interface, bool loopback);

}  // namespace scalai::executor::transport
