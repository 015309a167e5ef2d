#pragma once
// The transport between machines: UCX active messages over TCP or RDMA, chosen by UCX. One thread owns the UCX worker;
// it sleeps in epoll when idle and never polls. A second thread gathers chunks of answers that are not contiguous.
// Endpoints watch their peer: when its process dies, every fetch from it fails with Unavailable, at once if its machine
// reports it (a TCP reset), otherwise at UCX's keepalive (20 s) or the fetch's deadline. Thread rules of PeerTransport.
//
// Not for peers on one host if shared memory is possible: with watched endpoints UCX 1.13 has only TCP there.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/transport/peer_transport.h"

namespace scalai::executor::transport {

struct UcxOptions {
  int64_t chunk_bytes = int64_t{480} << 10;      // of an answer, per message; fits a TCP segment with its headers
  int chunks_in_flight = 4;                      // per answer
  int64_t in_flight_bytes = int64_t{256} << 20;  // of all fetches at a time; a larger fetch runs alone
  std::string transports;  // as UCX_TLS ("tcp", "rc,tcp", …); "" = from UCX_TLS, or all but shared memory
  std::string devices;     // as UCX_NET_DEVICES ("lo", "eth0,mlx5_0:1"); "" = from UCX_NET_DEVICES, or all
  std::string key;         // the run's, at least 16 bytes: an end with another key gets nothing and is not believed
};

class UcxTransport : public PeerTransport {
 public:
  // `handler` is called as for PeerTransport, until close(). Unavailable: UCX finds no transport on this machine.
  // InvalidArgument: a key that is too short.
  static absl::StatusOr<std::unique_ptr<UcxTransport>> create(AnswerHandler handler, const UcxOptions& options = {});
  ~UcxTransport() override;

  std::string address() const override;
  absl::Status connect(HostId peer, std::string_view address) override;
  using PeerTransport::fetch;
  absl::Status fetch(HostId peer, std::string_view request, std::span<const std::span<std::byte>> dst,
                     Deadline deadline) override;
  void close() override;

 private:
  struct State;
  explicit UcxTransport(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace scalai::executor::transport
