#pragma once
// The transport between machines: UCX active messages, over TCP or RDMA, whatever UCX finds between two hosts. One thread
// owns the UCX worker; it sleeps in epoll when there is nothing to do and never polls. A second one gathers chunks of
// answers that do not lie in one piece. Endpoints watch their peer: when its process dies, every fetch from it fails
// with Unavailable, at once when its machine still says so (a TCP reset), else when UCX's keepalive (20 s) or the
// fetch's deadline notices.
//
// Not for peers of one host where shared memory serves better: with watched endpoints UCX 1.13 has only TCP there.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/transport/peer_transport.h"

namespace scalai::executor {

struct UcxOptions {
  int64_t chunk_bytes = int64_t{480} << 10;      // of an answer in one message; fits a TCP segment with its headers
  int chunks_in_flight = 4;                      // of one answer
  int64_t in_flight_bytes = int64_t{256} << 20;  // fetched at once by all callers; a larger fetch goes alone
  std::string transports;                        // as UCX_TLS ("tcp", "rc,tcp", …); "" = what UCX or UCX_TLS says
};

class UcxTransport : public PeerTransport {
 public:
  // Unavailable when UCX finds no transport on this machine.
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

}  // namespace scalai::executor
