#pragma once
// Both ends in one process, with threads and without sockets or gRPC: what runs under ThreadSanitizer. It stands for an
// address: controllers start and die on it, workers find the one that is there. Loss is immediate, heartbeats are not
// needed. Thread-safe.

#include <memory>

#include "absl/status/statusor.h"
#include "executor/rpc/controller_end.h"
#include "executor/rpc/worker_end.h"

namespace scalai::executor::rpc {

// What a worker of a test says of itself. A dead one speaks no protocol: no controller takes it back.
void fill_hello(proto::Hello& hello, const std::string& transport_address, bool dead);

class FakeNetwork {
 public:
  FakeNetwork();
  ~FakeNetwork();
  FakeNetwork(const FakeNetwork&) = delete;
  FakeNetwork& operator=(const FakeNetwork&) = delete;

  // As ControlServer::start; destroying it is a crash of the controller. Unavailable: there is one already.
  absl::StatusOr<std::unique_ptr<ControllerEnd>> start(ControllerOptions options, const std::string& token);
  // As WorkerSession::connect; `options.address` does not matter.
  absl::StatusOr<std::unique_ptr<WorkerEnd>> connect(WorkerOptions options);

  struct Hub;

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace scalai::executor::rpc
