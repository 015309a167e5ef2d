#pragma once
// A worker's end over gRPC. connect() from any thread.

#include <memory>

#include "absl/status/statusor.h"
#include "executor/rpc/worker_end.h"

namespace scalai::executor::rpc {

class WorkerSession {
 public:
  // Joins the run. Unavailable: no controller at this address (named) within connect_timeout_s. Unauthenticated: wrong
  // token, or the other end does not prove that it knows it. FailedPrecondition: refused, with the controller's reason,
  // or no controller of this build. NotFound: no ca_file.
  static absl::StatusOr<std::unique_ptr<WorkerEnd>> connect(WorkerOptions options);
};

}  // namespace scalai::executor::rpc
