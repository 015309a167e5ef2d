#pragma once
// A worker's end over gRPC.

#include <memory>

#include "absl/status/statusor.h"
#include "executor/control/worker_end.h"

namespace scalai::executor {

class WorkerSession {
 public:
  // Joins the run. Errors: Unavailable (no controller at this address within connect_timeout_s; named),
  // Unauthenticated (token), FailedPrecondition (refused, with the controller's reason), NotFound (ca_file).
  static absl::StatusOr<std::unique_ptr<WorkerEnd>> connect(WorkerOptions options);
};

}  // namespace scalai::executor
